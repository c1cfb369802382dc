"""Dry runs of every kind of write: answered as the write would be, and nothing is stored, told or counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api_client import APPLY, JSON_PATCH, STRATEGIC, Answer, ApiClient, names
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract

Call = Callable[[ApiClient, str], Answer]


def put(client: ApiClient, path: str, change: Callable[[dict[str, Any]], None]) -> Answer:
    """Replace an object by what it is with a change."""
    obj = client.get(path).json
    change(obj)
    return client.put(path, obj, dryRun="All")


_WRITES: dict[str, tuple[Call, Callable[[Any], bool]]] = {
    "create": (
        lambda client, n: client.post(config_maps(n), config_map("new"), dryRun="All"),
        lambda obj: bool(obj["metadata"]["uid"]),
    ),
    "create with a generated name": (
        lambda client, n: client.post(config_maps(n), {"metadata": {"generateName": "g-"}}, dryRun="All"),
        lambda obj: obj["metadata"]["name"].startswith("g-"),
    ),
    "replace": (
        lambda client, n: put(client, widgets(n, "w"), lambda obj: obj["spec"].update(size=5)),
        lambda obj: obj["spec"]["size"] == 5 and obj["metadata"]["generation"] == 2,
    ),
    "merge patch": (
        lambda client, n: client.patch(widgets(n, "w"), {"spec": {"size": 5}}, dryRun="All"),
        lambda obj: obj["spec"]["size"] == 5,
    ),
    "JSON patch": (
        lambda client, n: client.patch(
            widgets(n, "w"), [{"op": "replace", "path": "/spec/size", "value": 5}], JSON_PATCH, dryRun="All"
        ),
        lambda obj: obj["spec"]["size"] == 5,
    ),
    "strategic patch": (
        lambda client, n: client.patch(config_maps(n, "c"), {"data": {"x": "y"}}, STRATEGIC, dryRun="All"),
        lambda obj: obj["data"] == {"x": "y"},
    ),
    "apply to what is there": (
        lambda client, n: client.patch(
            widgets(n, "w"), widget("w", 5), APPLY, fieldManager="m", force="true", dryRun="All"
        ),
        lambda obj: obj["spec"]["size"] == 5,
    ),
    "apply to nothing": (
        lambda client, n: client.patch(widgets(n, "new"), widget("new", 5), APPLY, fieldManager="m", dryRun="All"),
        lambda obj: obj["spec"]["size"] == 5,
    ),
    "status": (
        lambda client, n: client.patch(widgets(n, "w") + "/status", {"status": {"phase": "Up"}}, dryRun="All"),
        lambda obj: obj["status"]["phase"] == "Up",
    ),
    "scale": (
        lambda client, n: client.patch(widgets(n, "w") + "/scale", {"spec": {"replicas": 4}}, dryRun="All"),
        lambda obj: obj["spec"]["replicas"] == 4,
    ),
    "delete": (lambda client, n: client.delete(widgets(n, "w"), dryRun="All"), lambda obj: True),
    "delete by its options": (
        lambda client, n: client.delete(
            widgets(n, "w"), {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
        ),
        lambda obj: True,
    ),
    "delete what a finalizer holds": (
        lambda client, n: client.delete(config_maps(n, "held"), dryRun="All"),
        lambda obj: True,
    ),
    "delete a collection": (
        lambda client, n: client.delete(config_maps(n), dryRun="All", labelSelector="mine=yes"),
        lambda obj: obj["kind"] == "ConfigMapList",
    ),
    "delete a pod that takes its time": (
        lambda client, n: client.delete(pods(n, "p"), dryRun="All"),
        lambda obj: obj["kind"] in ("Pod", "Status"),
    ),
    "evict": (
        lambda client, n: client.post(
            pods(n, "p") + "/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "p"},
                "deleteOptions": {"dryRun": ["All"]},
            },
        ),
        lambda obj: True,
    ),
    "bind": (
        lambda client, n: client.post(
            pods(n, "free") + "/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "free"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "x"},
            },
            dryRun="All",
        ),
        lambda obj: True,
    ),
    "a namespace": (
        lambda client, n: client.delete(f"/api/v1/namespaces/{n}", dryRun="All"),
        lambda obj: True,
    ),
}


@pytest.fixture
def filled(admin: ApiClient, namespace: str) -> str:
    """A namespace with one of each."""
    admin.made(widgets(namespace), widget("w", 2))
    admin.made(config_maps(namespace), config_map("c", labels={"mine": "yes"}))
    held = config_map("held", labels={"mine": "yes"})
    held["metadata"]["finalizers"] = ["example.org/wait"]
    admin.made(config_maps(namespace), held)
    admin.made(pods(namespace), pod("p", nodeName="n"))
    admin.made(pods(namespace), pod("free"))
    return namespace


def everything(admin: ApiClient, namespace: str) -> list[Any]:
    """All that is there, with its versions."""
    lists = [admin.get(path(namespace)).json["items"] for path in (widgets, config_maps, pods)]
    return [*lists, admin.get(f"/api/v1/namespaces/{namespace}").json]


@pytest.mark.parametrize(("call", "shown"), _WRITES.values(), ids=_WRITES)
def test_a_dry_run_is_answered_and_stores_nothing(
    admin: ApiClient, filled: str, call: Call, shown: Callable[[Any], bool]
) -> None:
    before = everything(admin, filled)
    start = admin.get(config_maps(filled)).json["metadata"]["resourceVersion"]
    watch = admin.watch(config_maps(filled), resourceVersion=start)
    answer = call(admin, filled)
    assert answer.status in (200, 201, 202), answer.body
    assert shown(answer.json), answer.body
    assert everything(admin, filled) == before
    # The next thing that is told is the next real write.
    admin.made(config_maps(filled), config_map("real"))
    assert watch.wait(1)[0]["object"]["metadata"]["name"] == "real"
    watch.close()
    admin.patch(config_maps(filled, "held"), {"metadata": {"finalizers": None}})


def test_a_dry_run_is_refused_where_the_write_would_be(admin: ApiClient, filled: str) -> None:
    assert admin.post(widgets(filled), widget("w"), dryRun="All").status == 409
    assert admin.post(widgets(filled), widget("bad", 99), dryRun="All").status == 422
    assert admin.patch(widgets(filled, "absent"), {"spec": {"size": 1}}, dryRun="All").status == 404
    assert admin.delete(widgets(filled, "absent"), dryRun="All").status == 404
    assert admin.patch(widgets(filled, "w"), {"spec": {"size": 99}}, dryRun="All").status == 422
    stale = {**admin.get(widgets(filled, "w")).json, "spec": {"size": 3}}
    stale["metadata"]["resourceVersion"] = "1"
    assert admin.put(widgets(filled, "w"), stale, dryRun="All").status == 409
    assert admin.post("/api/v1/namespaces/absent/configmaps", config_map("x"), dryRun="All").status == 404
    assert admin.post(widgets(filled), widget("x"), dryRun="Some").status in (400, 422)
    conflict = admin.patch(widgets(filled, "w"), widget("w", 9), APPLY, fieldManager="other", dryRun="All")
    assert conflict.status == 409
    assert names(admin.get(widgets(filled))) == ["w"]
    admin.patch(config_maps(filled, "held"), {"metadata": {"finalizers": None}})
