"""The nodes that hotplugged volumes leave to a launcher."""

from __future__ import annotations

from typing import Any

from kvedge.controller.vmi.hotplug.launcher_place import with_places
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeSpec

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def on(*nodes: str) -> JsonObject:
    return {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}


def a_volume(*terms: JsonObject) -> PersistentVolume:
    affinity = {"required": {"nodeSelectorTerms": list(terms)}} if terms else None
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(node_affinity=affinity))


def terms_of(affinity: JsonObject | None) -> Any:
    assert affinity is not None
    return affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def asking(*terms: JsonObject, **more: Any) -> JsonObject:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}, **more}}


def test_volumes_that_are_everywhere_change_nothing() -> None:
    assert with_places(None, []) is None
    assert with_places(None, [a_volume()]) is None
    asked = asking({"matchExpressions": [on("n1")]})
    assert with_places(asked, [a_volume()]) is asked


def test_a_volume_of_one_node_binds_the_launcher_to_it() -> None:
    assert terms_of(with_places(None, [a_volume({"matchExpressions": [on("n2")]})])) == [
        {"matchExpressions": [on("n2")]}
    ]


def test_what_the_user_asks_and_each_volume_must_all_hold() -> None:
    disk = {"key": "disk", "operator": "Exists"}
    other = {"podAntiAffinity": {"x": []}}
    asked = {**asking({"matchExpressions": [disk]}, preferred=[1]), **other}
    fields = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    found = with_places(asked, [a_volume({"matchExpressions": [on("n1", "n2")]}), a_volume({"matchFields": [fields]})])
    assert terms_of(found) == [{"matchExpressions": [disk, on("n1", "n2")], "matchFields": [fields]}]
    assert found is not None
    assert found["podAntiAffinity"] == {"x": []}
    assert found["nodeAffinity"]["preferred"] == [1]


def test_each_alternative_holds_with_each() -> None:
    asked = asking({"matchExpressions": [on("a")]}, {"matchExpressions": [on("b")]})
    volume = a_volume({"matchExpressions": [on("x")]}, {"matchExpressions": [on("y")]})
    found = [
        [each["values"][0] for each in term["matchExpressions"]] for term in terms_of(with_places(asked, [volume]))
    ]
    assert found == [["a", "x"], ["a", "y"], ["b", "x"], ["b", "y"]]


def test_a_pod_that_asks_for_no_node_at_all_gets_none_by_its_volumes() -> None:
    asked = asking({})
    assert with_places(asked, [a_volume({"matchExpressions": [on("n1")]})]) is asked


def test_alternatives_are_bounded() -> None:
    volume = a_volume(*({"matchExpressions": [on(f"n{number}")]} for number in range(9)))
    assert len(terms_of(with_places(None, [volume] * 20))) == 9
