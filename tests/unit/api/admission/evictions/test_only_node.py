# Tests: kvedge/api/admission/evictions/eviction_admission.py
"""What evictions come to with an API server that lacks nodes, is old or does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest, GroupVersionResource
from kvedge.api.admission.evictions.eviction_admission import EvictionAdmission
from kvedge.api.admission.judgement import Judgement
from kvedge.kube.errors import Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod, vmi_with

TRIGGERED = 'Eviction triggered evacuation of VMI "default/web"'


class Server:
    """One VMI and its launcher, on one of `nodes` nodes; `broken` are the kinds that are not answered for."""

    def __init__(self, strategy: str = "LiveMigrate", nodes: int = 2) -> None:
        conditions = [{"type": "LiveMigratable", "status": "True"}]
        known = {"phase": "Running", "nodeName": "node-1", "conditions": conditions}
        self.vmi = vmi_with({"evictionStrategy": strategy}, known, name="web", namespace="default", uid="run-1")
        self.pod = a_pod(self.vmi, "Running", "node-1")
        self.nodes = nodes
        self.broken: dict[str, KubeError] = {}
        self.marked: list[JsonObject] = []
        self.keeps_marks = True

    def hurry(self, seconds: float) -> Server:
        return self

    def get(self, cls: type[Any], namespace: str, name: str) -> Any:
        if error := self.broken.get(cls.KIND.plural):
            raise error
        return {Pod: self.pod, VirtualMachineInstance: self.vmi}[cls]

    def request(self, method: str, path: str, body: Any = None, query: Any = None, content: str = "") -> JsonObject:
        if path == "/api/v1/nodes":
            if error := self.broken.get("nodes"):
                raise error
            return {"items": [{}] * min(self.nodes, int(query["limit"]))}
        self.marked.append(body)
        return {"status": dict(body["status"]) if self.keeps_marks else {}}


def evict(server: Server, name: str = "") -> str | None:
    """Why the launcher stays; None when it goes."""
    admission = EvictionAdmission(cast("KubeClient", server), cast("Judgement", SimpleNamespace()), lambda: "None")
    resource = GroupVersionResource(group="", version="v1", resource="pods")
    request = AdmissionRequest(
        uid="u",
        operation="CREATE",
        resource=resource,
        sub_resource="eviction",
        namespace="default",
        name=name or server.pod.metadata.name,
    )
    response = admission.answer(request)["response"]
    if response["allowed"]:
        return None
    assert response["status"]["code"] == 429, "a drain tries again"
    return str(response["status"]["message"])


def test_a_guest_is_marked_where_there_is_another_node() -> None:
    server = Server()
    assert evict(server) == TRIGGERED
    assert [body["status"] for body in server.marked] == [{"evacuationNodeName": "node-1"}]


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ("LiveMigrate", "VMI web is configured with an eviction strategy but has no other node to go to"),
        ("LiveMigrateIfPossible", None),
        ("External", TRIGGERED),
    ],
)
def test_on_the_only_node_a_drain_ends_as_if_the_guest_could_not_move(strategy: str, wanted: str | None) -> None:
    server = Server(strategy, nodes=1)
    assert evict(server) == wanted
    assert bool(server.marked) == (strategy == "External")


def test_a_guest_is_not_shut_down_because_the_nodes_are_not_known() -> None:
    server = Server("LiveMigrateIfPossible")
    server.broken["nodes"] = Unavailable(503, "ServiceUnavailable", "not now")
    assert evict(server) == "kubevirt failed listing the nodes: not now"
    assert not server.marked


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(0, "Timeout", "no answer"),
        Unavailable(429, "TooManyRequests", "no answer"),
        Forbidden(403, "Forbidden", "no answer"),
    ],
    ids=["late", "busy", "a right lacks"],
)
def test_a_pod_that_may_have_a_guest_stays_until_that_is_known(error: KubeError) -> None:
    server = Server("LiveMigrateIfPossible")
    server.broken["pods"] = error
    assert evict(server) == "kubevirt failed getting the pod: no answer"


def test_a_pod_that_is_gone_is_left_to_the_eviction() -> None:
    server = Server()
    server.broken["pods"] = NotFound(404, "NotFound", "no such Pod")
    assert evict(server) is None


def test_a_mark_that_an_older_kind_drops_is_told_with_the_remedy() -> None:
    server = Server()
    server.keeps_marks = False
    said = evict(server)
    assert said is not None
    assert said.endswith("the API server knows no status.evacuationNodeName yet: apply k3s/crds")


def test_a_pod_that_only_looks_like_a_launcher_does_not_hold_a_drain() -> None:
    server = Server()
    server.pod.metadata.owner_references = []
    server.broken["virtualmachineinstances"] = NotFound(404, "NotFound", "no such VMI")
    assert evict(server) is None
