"""Each kind has one type: two would drift apart, and the wrong one would be imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from kvedge import resources
from kvedge.resources.codec import KubeStruct


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
