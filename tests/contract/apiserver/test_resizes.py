"""Pods that are given another size while they are there, judged by a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server, new_namespace
from tests.contract.apiserver.test_quotas import asking, core, limit, pod
from tests.support.api_client import STRATEGIC, Answer

pytestmark = pytest.mark.contract


def resize(api_server: Server, namespace: str, resources: dict[str, Any], **more: Any) -> Answer:
    """A strategic merge patch of the resize subresource, as `kubectl patch --subresource resize` sends it."""
    body = {"spec": {"containers": [{"name": "c0", "resources": resources, **more}]}}
    return api_server.admin.patch(f"{core(namespace, 'pods')}/p/resize", body, STRATEGIC)


def test_a_resize_changes_cpu_and_memory_alone(api_server: Server) -> None:
    namespace = new_namespace(api_server.admin)
    api_server.admin.made(core(namespace, "pods"), pod("p", asking("100m", "64Mi", most_memory="128Mi")))
    answer = resize(api_server, namespace, asking("300m", "96Mi", most_memory="192Mi"), image="another")
    assert answer.status == 200, answer.json
    container = answer.json["spec"]["containers"][0]
    assert container["resources"] == asking("300m", "96Mi", most_memory="192Mi")
    assert container["image"] == "x", "it is no other Pod"
    assert api_server.admin.get(f"{core(namespace, 'pods')}/p/resize").status == 200
    # Through the Pod itself it stays what it is.
    body = {"spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "1"}}}]}}
    assert api_server.admin.patch(f"{core(namespace, 'pods')}/p", body, STRATEGIC).status == 422


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (asking("500m", "64Mi", most_memory="32Mi"), "must be less than or equal to memory limit"),
        ({"requests": {"ephemeral-storage": "1Gi"}}, "only cpu and memory resources are mutable"),
        (asking("1", "128Mi", "1", "128Mi"), "Pod QOS Class may not change as a result of resizing"),
    ],
    ids=["above its limit", "another resource", "another class"],
)
def test_what_no_resize_may_do_is_refused(api_server: Server, resources: dict[str, Any], words: str) -> None:
    namespace = new_namespace(api_server.admin)
    api_server.admin.made(core(namespace, "pods"), pod("p", asking("100m", "64Mi", most_memory="128Mi")))
    answer = resize(api_server, namespace, resources)
    assert (answer.status, words in answer.json["message"]) == (422, True), answer.json


def test_a_quota_counts_what_a_resize_asks_for(api_server: Server) -> None:
    namespace = new_namespace(api_server.admin)
    limit(api_server, namespace, hard={"requests.memory": "100Mi"})
    api_server.admin.made(core(namespace, "pods"), pod("p", asking("100m", "64Mi")))
    refused = resize(api_server, namespace, asking("100m", "128Mi"))
    assert (refused.status, "exceeded quota: q" in refused.json["message"]) == (403, True), refused.json
    assert resize(api_server, namespace, asking("100m", "96Mi")).status == 200
