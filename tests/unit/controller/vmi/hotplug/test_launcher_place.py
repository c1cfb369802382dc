"""The nodes to which hotplugged volumes bind a launcher."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.controller.vmi.hotplug.launcher_place import place_by_volumes, with_places
from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import START_WITHOUT_VOLUMES
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


def terms_of(affinity: JsonObject | None) -> Any:
    assert affinity is not None
    return affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


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


def test_a_volume_of_one_node_binds_the_launcher_to_it() -> None:
    found = with_places(None, [a_volume({"matchExpressions": [on("n2")]})])
    assert found == asking({"matchExpressions": [on("n2")]})


def test_a_guest_that_may_start_without_its_volumes_prefers_their_node() -> None:
    found = with_places(None, [a_volume({"matchExpressions": [on("n2")]})], only_prefers=True)
    assert wishes_of(found) == [{"weight": 100, "preference": {"matchExpressions": [on("n2")]}}]
    assert found is not None
    assert REQUIRED not in found["nodeAffinity"]


def test_what_the_user_asks_and_wishes_stays() -> None:
    wish = {"weight": 1, "preference": {"matchExpressions": [on("n9")]}}
    asked = {**asking({"matchExpressions": [on("n1")]}, **{PREFERRED: [wish]}), "podAntiAffinity": {"x": []}}
    found = with_places(asked, [a_volume({"matchExpressions": [on("n2")]})])
    assert terms_of(found) == [{"matchExpressions": [on("n1"), on("n2")]}]
    assert wishes_of(found) == [wish]
    found = with_places(asked, [a_volume({"matchExpressions": [on("n2")]})], only_prefers=True)
    assert wishes_of(found) == [wish, {"weight": 100, "preference": {"matchExpressions": [on("n2")]}}]
    assert terms_of(found) == terms_of(asked)
    assert found is not None
    assert found["podAntiAffinity"] == {"x": []}
    assert (wishes_of(asked), terms_of(asked)) == ([wish], [{"matchExpressions": [on("n1")]}]), "the VMI's own stays"


def test_a_user_whose_affinity_matches_no_node_is_not_given_one() -> None:
    asked = asking({})
    assert with_places(asked, [a_volume({"matchExpressions": [on("n2")]})]) is asked


def test_the_node_is_one_that_all_volumes_can_come_to() -> None:
    fields = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    either = a_volume({"matchExpressions": [on("x")]}, {"matchExpressions": [on("y")]})
    assert terms_of(with_places(None, [either, a_volume({"matchFields": [fields]})])) == [
        {"matchExpressions": [on("x")], "matchFields": [fields]},
        {"matchExpressions": [on("y")], "matchFields": [fields]},
    ]


def test_alternatives_are_bounded() -> None:
    volume = a_volume(*({"matchExpressions": [on(f"n{number}")]} for number in range(9)))
    assert len(terms_of(with_places(None, [volume] * 20))) == 9
    asked = asking(*({"matchExpressions": [on(f"m{number}")]} for number in range(9)))
    assert with_places(asked, [volume]) is asked


@pytest.mark.parametrize(
    "error",
    [NotFound(404, "NotFound", ""), KubeError(403, "Forbidden", "no")],
    ids=["gone", "forbidden"],
)
def test_a_launcher_waits_for_no_volume_that_cannot_be_read(error: KubeError) -> None:
    def get(kind: Any, namespace: str, name: str) -> PersistentVolume:
        if name == "pv-bad":
            raise error
        return a_volume({"matchExpressions": [on("n2")]})

    vmi = a_running_vmi(a_hotplugged("bad"), a_hotplugged("good"))
    claims = [a_claim("bad"), a_claim("good")]
    for claim in claims:
        claim.spec.volume_name = f"pv-{claim.metadata.name}"
    pod = place_by_volumes(a_launcher(vmi), vmi, claims, cast("KubeClient", SimpleNamespace(get=get)))
    assert terms_of(pod.spec.affinity) == [{"matchExpressions": [on("n2")]}]
    vmi.metadata.annotations[START_WITHOUT_VOLUMES] = "true"
    pod = place_by_volumes(a_launcher(vmi), vmi, claims, cast("KubeClient", SimpleNamespace(get=get)))
    assert [each["preference"] for each in wishes_of(pod.spec.affinity)] == [{"matchExpressions": [on("n2")]}]


def test_a_launcher_waits_for_a_server_that_does_not_answer() -> None:
    def get(kind: Any, namespace: str, name: str) -> PersistentVolume:
        raise Unavailable(503, "Unavailable", "later")

    vmi, claim = a_running_vmi(a_hotplugged("data")), a_claim("data")
    claim.spec.volume_name = "pv-data"
    with pytest.raises(Unavailable):
        place_by_volumes(a_launcher(vmi), vmi, [claim], cast("KubeClient", SimpleNamespace(get=get)))
