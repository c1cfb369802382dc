"""The nodes that hotplugged volumes have a launcher wish for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.controller.vmi.hotplug.launcher_place import placed, with_places
from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeSpec
from tests.support.builders import a_claim
from tests.unit.controller.vmi.hotplug.hotplug_world import a_launcher, a_running_vmi
from tests.unit.controller.vmi.hotplug.hotplug_world import a_volume as a_hotplugged

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def on(*nodes: str) -> JsonObject:
    return {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}


def a_volume(*terms: JsonObject) -> PersistentVolume:
    affinity = {"required": {"nodeSelectorTerms": list(terms)}} if terms else None
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(node_affinity=affinity))


def wishes_of(affinity: JsonObject | None) -> Any:
    assert affinity is not None
    return affinity["nodeAffinity"][PREFERRED]


def asking(*terms: JsonObject, **more: Any) -> JsonObject:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}, **more}}


def test_volumes_that_are_everywhere_change_nothing() -> None:
    assert with_places(None, []) is None
    assert with_places(None, [a_volume()]) is None
    asked = asking({"matchExpressions": [on("n1")]})
    assert with_places(asked, [a_volume()]) is asked


def test_a_volume_of_one_node_has_the_launcher_wish_for_it_and_bind_it_to_none() -> None:
    found = with_places(None, [a_volume({"matchExpressions": [on("n2")]})])
    assert wishes_of(found) == [{"weight": 100, "preference": {"matchExpressions": [on("n2")]}}]
    assert found is not None
    assert REQUIRED not in found["nodeAffinity"], "a guest whose root disk is elsewhere could not start"


def test_what_the_user_asks_and_wishes_stays() -> None:
    wish = {"weight": 1, "preference": {"matchExpressions": [on("n9")]}}
    asked = {**asking({"matchExpressions": [on("n1")]}, **{PREFERRED: [wish]}), "podAntiAffinity": {"x": []}}
    found = with_places(asked, [a_volume({"matchExpressions": [on("n2")]})])
    assert wishes_of(found) == [wish, {"weight": 100, "preference": {"matchExpressions": [on("n2")]}}]
    assert found is not None
    assert found["nodeAffinity"][REQUIRED] == asked["nodeAffinity"][REQUIRED]
    assert found["podAntiAffinity"] == {"x": []}
    assert wishes_of(asked) == [wish], "the VMI's own affinity is not written to"


def test_a_wish_is_for_a_node_that_all_volumes_can_come_to() -> None:
    fields = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    either = a_volume({"matchExpressions": [on("x")]}, {"matchExpressions": [on("y")]})
    found = with_places(None, [either, a_volume({"matchFields": [fields]})])
    assert [each["preference"] for each in wishes_of(found)] == [
        {"matchExpressions": [on("x")], "matchFields": [fields]},
        {"matchExpressions": [on("y")], "matchFields": [fields]},
    ]


def test_alternatives_are_bounded() -> None:
    volume = a_volume(*({"matchExpressions": [on(f"n{number}")]} for number in range(9)))
    assert len(wishes_of(with_places(None, [volume] * 20))) == 9


@pytest.mark.parametrize(
    "error",
    [NotFound(404, "NotFound", ""), KubeError(403, "Forbidden", "no"), Unavailable(503, "Unavailable", "later")],
    ids=["gone", "forbidden", "no answer"],
)
def test_a_launcher_waits_for_no_hint(error: KubeError) -> None:
    def get(kind: Any, namespace: str, name: str) -> PersistentVolume:
        if name == "pv-bad":
            raise error
        return a_volume({"matchExpressions": [on("n2")]})

    vmi = a_running_vmi(a_hotplugged("bad"), a_hotplugged("good"))
    claims = [a_claim("bad"), a_claim("good")]
    for claim in claims:
        claim.spec.volume_name = f"pv-{claim.metadata.name}"
    pod = placed(a_launcher(vmi), vmi, claims, cast("KubeClient", SimpleNamespace(get=get)))
    assert [each["preference"] for each in wishes_of(pod.spec.affinity)] == [{"matchExpressions": [on("n2")]}]
