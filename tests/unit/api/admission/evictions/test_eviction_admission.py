"""What the webhook of evictions says when the API server does not answer, or somebody else is faster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvedge.api.admission.admission_message import AdmissionRequest, GroupVersionResource
from kvedge.api.admission.evictions.eviction_admission import EvictionAdmission
from kvedge.api.admission.judgement import Judgement
from kvedge.kube.errors import Conflict, KubeError, NotFound, Unavailable
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod
from tests.unit.api.admission.evictions.test_eviction_rules import TRIGGERED, a_run, labelled

BUSY = Unavailable(503, "ServiceUnavailable", "busy")
GONE = NotFound(404, "NotFound", "not found")


class Server:
    """What the webhook asks; an object that is an error is what the question for it ends with."""

    def __init__(self, pod: Pod | KubeError, vmi: VirtualMachineInstance | KubeError) -> None:
        self.pods: dict[str, Pod | KubeError] = {"launcher": pod}
        self.vmi = vmi
        self.refusals: list[KubeError] = []
        self.written: list[tuple[JsonObject, JsonObject]] = []

    def hurry(self, seconds: float) -> Server:
        return self

    def get(self, kind: type[Any], namespace: str, name: str) -> Any:
        found = self.pods.get(name, GONE) if kind is Pod else self.vmi
        if isinstance(found, KubeError):
            raise found
        return found

    def request(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        query: JsonObject | None = None,
        media_type: str = "",
    ) -> JsonObject:
        if method == "GET":
            assert path == "/api/v1/nodes"
            return {"items": [{}, {}]}
        if self.refusals:
            raise self.refusals.pop(0)
        assert body is not None
        assert query is not None
        self.written.append((body, query))
        return body

    def evict(self, name: str = "launcher", **more: Any) -> tuple[int, str]:
        """Code and words of the answer; 200 lets the Pod go."""
        request = AdmissionRequest(
            uid="u",
            operation="CREATE",
            resource=GroupVersionResource(version="v1", resource="pods"),
            sub_resource="eviction",
            name=name,
            namespace="default",
            object={},
        )
        judgement = Judgement()
        admission = EvictionAdmission(self, judgement, lambda: "None")  # type: ignore[arg-type]
        response = admission.answer(msgspec.structs.replace(request, **more))["response"]
        judgement.close()
        return (200, "") if response["allowed"] else (response["status"]["code"], response["status"]["message"])


def a_server() -> Server:
    return Server(labelled(), a_run("LiveMigrate"))


def test_a_mark_names_the_version_that_was_judged() -> None:
    server = a_server()
    assert isinstance(server.vmi, VirtualMachineInstance)
    server.vmi.metadata.resource_version = "7"
    assert server.evict() == (429, TRIGGERED)
    ((body, query),) = server.written
    assert (body["metadata"]["resourceVersion"], body["status"], query) == ("7", {"evacuationNodeName": "node-1"}, {})


def test_somebody_who_was_faster_has_it_judged_once_more() -> None:
    server = a_server()
    server.refusals = [Conflict(409, "Conflict", "changed")]
    assert server.evict() == (429, TRIGGERED)
    assert len(server.written) == 1
    server.refusals = [Conflict(409, "Conflict", "changed")] * 2
    assert server.evict() == (429, "kubevirt failed marking the vmi for eviction: changed")


def test_a_mark_that_is_refused_says_why() -> None:
    server = a_server()
    server.refusals = [BUSY]
    assert server.evict() == (429, "kubevirt failed marking the vmi for eviction: busy")


@pytest.mark.parametrize(("pod", "answer"), [(GONE, (200, "")), (BUSY, (429, "kubevirt failed getting the pod: busy"))])
def test_a_pod_that_is_not_there_is_let_go_and_one_that_is_not_shown_is_not(
    pod: KubeError, answer: tuple[int, str]
) -> None:
    assert Server(pod, a_run("LiveMigrate")).evict() == answer


@pytest.mark.parametrize("error", [GONE, BUSY])
def test_a_launcher_that_no_vmi_speaks_for_stays(error: KubeError) -> None:
    assert Server(labelled(), error).evict() == (429, f"kubevirt failed getting the vmi: {error.message}")


def test_other_pods_and_other_writes_are_nobodys_business() -> None:
    server = Server(labelled(app="shop"), BUSY)
    assert server.evict() == (200, "")
    assert Server(BUSY, BUSY).evict(sub_resource="binding") == (200, "")


@pytest.mark.parametrize(
    ("launcher", "vmi", "answer"),
    [
        (GONE, BUSY, (200, "")),
        (BUSY, BUSY, (429, "failed getting owner for hotplug pod: busy")),
        (labelled("Succeeded"), BUSY, (200, "")),
        (labelled(), GONE, (200, "")),
        (labelled(), BUSY, (429, "kubevirt failed getting the vmi: busy")),
        (
            labelled(),
            a_run("None"),
            (429, "cannot evict hotplug pod: disk associated with running vmi: web in namespace default"),
        ),
    ],
    ids=["no launcher", "launcher unknown", "launcher ended", "no VMI", "VMI unknown", "guest runs"],
)
def test_an_attachment_pod_goes_with_its_guest(
    launcher: Pod | KubeError, vmi: VirtualMachineInstance | KubeError, answer: tuple[int, str]
) -> None:
    attachment = labelled(app="hotplug-disk")
    attachment.metadata.name = "disk"
    attachment.metadata.owner_references[0].name = "owner"
    server = Server(a_pod(a_run("None")), vmi)
    server.pods = {"disk": attachment, "owner": launcher}
    assert server.evict("disk") == answer
