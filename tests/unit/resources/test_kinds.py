"""Each kind has one type: two would drift apart, and the wrong one would be imported. Its paths lead to it alone."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from kvedge import resources
from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.types.vm import VirtualMachine


def _types(base: type) -> Iterator[type]:
    for found in base.__subclasses__():
        yield found
        yield from _types(found)


def test_no_kind_has_two_types() -> None:
    for module in pkgutil.walk_packages(resources.__path__, f"{resources.__name__}."):
        importlib.import_module(module.name)
    types: dict[object, list[str]] = {}
    for found in _types(KubeStruct):
        if found.__module__.startswith(resources.__name__) and "KIND" in vars(found):
            types.setdefault(vars(found)["KIND"], []).append(found.__module__)
    assert len(types) > 10
    assert [modules for modules in types.values() if len(modules) > 1] == []


@pytest.mark.parametrize(
    "name",
    [
        "../../../kubevirt.io/v1/namespaces/victim/virtualmachines/db",
        "..",
        ".",
        "a/status",
        "a?limit=1",
        "a#b",
        "..%2Fvictim",
        "a\\b",
        "a\nb",
        "a\x7f",
    ],
)
def test_a_path_leads_to_no_other_place_than_its_own(name: str) -> None:
    with pytest.raises(ValueError, match=r"^name .*: no object can be called so"):
        VirtualMachine.KIND.path("here", name)
    with pytest.raises(ValueError, match=r"^namespace .*: no object can be called so"):
        VirtualMachine.KIND.path(name, "vm")


def test_names_of_all_kinds_of_objects_stand_in_paths() -> None:
    roles = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
    assert roles.path("", "system:node-bootstrapper") == (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node-bootstrapper"
    )
    assert VirtualMachine.KIND.path("here") == "/apis/kubevirt.io/v1/namespaces/here/virtualmachines"
    assert VirtualMachine.KIND.path("here", "u1.small..x", "status").endswith("/virtualmachines/u1.small..x/status")
