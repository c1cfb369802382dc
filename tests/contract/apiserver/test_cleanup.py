"""What goes when something else goes: dependents, the content of namespaces and CRDs.

In Kubernetes these are controllers.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server, new_namespace
from tests.support.api_client import ApiClient, eventually, names
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract


@pytest.fixture
def box(embedded_server: Server) -> ApiClient:
    """An administrator of the embedded API."""
    return embedded_server.admin


@pytest.fixture
def place(box: ApiClient) -> str:
    """A namespace of the test's own."""
    return new_namespace(box)


def owned(obj: dict[str, Any], *owners: dict[str, Any], block: bool = False) -> dict[str, Any]:
    """The object with these owners."""
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for owner in owners
    ]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}


def gone(box: ApiClient, path: str) -> None:
    """Wait until there is nothing at the path."""
    eventually(lambda: box.get(path).status == 404)


def test_dependents_of_dependents_go_with_their_owner(box: ApiClient, place: str) -> None:
    top = box.made(widgets(place), widget("top"))
    middle = box.made(widgets(place), owned(widget("middle"), top))
    box.made(config_maps(place), owned(config_map("leaf"), middle))
    box.made(config_maps(place), config_map("other"))
    assert box.delete(widgets(place, "top")).status == 200
    gone(box, widgets(place, "middle"))
    gone(box, config_maps(place, "leaf"))
    assert names(box.get(config_maps(place))) == ["other"]


def test_an_object_stays_while_one_of_its_owners_does(box: ApiClient, place: str) -> None:
    one, two = (box.made(widgets(place), widget(name)) for name in ("one", "two"))
    box.made(config_maps(place), owned(config_map("child"), one, two))
    box.delete(widgets(place, "one"))

    def owners() -> list[str]:
        return [entry["name"] for entry in box.get(config_maps(place, "child")).json["metadata"]["ownerReferences"]]

    eventually(lambda: owners() == ["two"])
    box.delete(widgets(place, "two"))
    gone(box, config_maps(place, "child"))


def test_an_owner_that_never_was_takes_its_dependent_along(box: ApiClient, place: str) -> None:
    ghost = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "ghost", "uid": "no-such-uid"}}
    box.made(config_maps(place), owned(config_map("child"), ghost))
    gone(box, config_maps(place, "child"))


def test_another_object_of_the_owners_name_is_not_the_owner(box: ApiClient, place: str) -> None:
    first = box.made(widgets(place), widget("a"))
    box.delete(widgets(place, "a"))
    box.made(widgets(place), widget("a"))
    box.made(config_maps(place), owned(config_map("child"), first))
    gone(box, config_maps(place, "child"))


def test_an_owner_of_an_unknown_kind_takes_nothing_along(box: ApiClient, place: str) -> None:
    ghost = {"apiVersion": "nobody.example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}}
    box.made(config_maps(place), owned(config_map("kept"), ghost))
    one = box.made(widgets(place), widget("one"))
    box.made(config_maps(place), owned(config_map("marker"), one))
    box.delete(widgets(place, "one"))
    gone(box, config_maps(place, "marker"))
    assert names(box.get(config_maps(place))) == ["kept"]


def test_in_the_foreground_the_owner_waits_for_its_dependents(box: ApiClient, place: str) -> None:
    top = box.made(widgets(place), widget("top"))
    held = owned(config_map("held"), top, block=True)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    box.made(config_maps(place), held)
    assert box.delete(widgets(place, "top"), {"propagationPolicy": "Foreground"}).status == 200
    eventually(lambda: "deletionTimestamp" in box.get(config_maps(place, "held")).json["metadata"])
    assert box.get(widgets(place, "top")).json["metadata"]["finalizers"] == ["foregroundDeletion"]
    box.patch(config_maps(place, "held"), {"metadata": {"finalizers": None}})
    gone(box, widgets(place, "top"))


def test_orphans_stay_and_forget_their_owner(box: ApiClient, place: str) -> None:
    top = box.made(widgets(place), widget("top"))
    box.made(config_maps(place), owned(config_map("child"), top))
    box.delete(widgets(place, "top"), {"propagationPolicy": "Orphan"})
    gone(box, widgets(place, "top"))
    assert "ownerReferences" not in box.get(config_maps(place, "child")).json["metadata"]


def test_a_namespace_goes_with_all_that_is_in_it(box: ApiClient, place: str) -> None:
    box.made(widgets(place), widget("a"))
    box.made(pods(place), pod("p", nodeName="n1"))
    box.made(config_maps(place), config_map("c"))
    outside = new_namespace(box)
    box.made(config_maps(outside), config_map("c"))
    assert box.delete(f"/api/v1/namespaces/{place}").json["status"]["phase"] == "Terminating"
    gone(box, widgets(place, "a"))
    eventually(lambda: "deletionTimestamp" in box.get(pods(place, "p")).json["metadata"])
    assert box.get(f"/api/v1/namespaces/{place}").status == 200
    box.delete(pods(place, "p"), {"gracePeriodSeconds": 0})
    gone(box, f"/api/v1/namespaces/{place}")
    assert names(box.get(config_maps(outside))) == ["c"]


def test_a_crd_goes_with_all_its_objects_and_its_paths(box: ApiClient, place: str) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.short.example.com"},
        "spec": {
            "group": "short.example.com",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    path = f"/apis/short.example.com/v1/namespaces/{place}/gadgets"
    box.made(crds, crd)
    box.made(path, {"apiVersion": "short.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}})
    watch = box.watch(path)
    watch.wait(1)
    assert box.delete(f"{crds}/gadgets.short.example.com").status == 200
    gone(box, f"{crds}/gadgets.short.example.com")
    assert [event["type"] for event in watch.wait(2)] == ["ADDED", "DELETED"]
    watch.close()
    assert box.get(path).status == 404
    assert "short.example.com" not in {group["name"] for group in box.get("/apis").json["groups"]}
    box.made(crds, crd)
    assert box.get(path).json["items"] == []
    box.delete(f"{crds}/gadgets.short.example.com")


def test_what_is_created_after_its_owner_went_goes_too(box: ApiClient, place: str) -> None:
    top = box.made(widgets(place), widget("top"))
    box.delete(widgets(place, "top"))
    for number in range(20):
        box.made(config_maps(place), owned(config_map(f"late-{number}"), top))
    eventually(lambda: names(box.get(config_maps(place))) == [])
