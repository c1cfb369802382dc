"""The webhook of evictions: a guest that can move is marked to leave its node, and its Pod stays until it has.

Mounted by api_run.py beside the other webhooks. Asks the API server for the Pod and its VMI, in a worker thread and
with a short deadline, and writes one field of the VMI. The controller moves marked guests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web

from kvedge.api.admission.admission_message import AdmissionRequest, refusal, verdict
from kvedge.api.admission.evictions.eviction_rules import (
    Allow,
    Answer,
    Deny,
    Mark,
    fail_to_get,
    is_attachment,
    is_by_descheduler,
    is_dry_run,
    judge_attachment,
    judge_launcher,
    needs_a_node,
    vmi_of_launcher,
)
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.webhook_answers import ask_for_answer
from kvedge.api.secret_paths import SecretPaths
from kvedge.api.served_paths import VALIDATE_EVICTION_PATH
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.evacuation import DESCHEDULER, EVICTION_SOURCE
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

# Less than the API server waits for us, all questions together: one for the Pod, three for each try.
_ASK_SECONDS: Final = 1.4
# A VMI that is written all the time is marked when the drain asks again.
_TRIES: Final = 2
# A server drops a field that the kind of an earlier version does not have.
_NOT_KEPT: Final = (
    "kubevirt failed marking the vmi for eviction: the API server knows no status.evacuationNodeName yet: "
    "apply k3s/crds"
)
# The guest's own and another one.
_ENOUGH_NODES: Final = 2
_TOO_MANY_REQUESTS: Final = 429
_MERGE_PATCH: Final = "application/merge-patch+json"


class EvictionAdmission:
    """Judges evictions of launchers, and of Pods that bring them volumes."""

    def __init__(self, client: KubeClient, judgement: Judgement, strategy: Callable[[], str]) -> None:
        """`strategy` says what holds for VMIs that have no strategy of their own."""
        self._client = client.hurry(_ASK_SECONDS)
        self._judgement = judgement
        self._strategy = strategy

    def routes(self, paths: SecretPaths) -> list[web.RouteDef]:
        """The webhook, which asks: at a path that callers must know."""
        return [paths.route(VALIDATE_EVICTION_PATH, ask_for_answer(self._judgement, self.answer))]

    def answer(self, request: AdmissionRequest) -> JsonObject:
        """The AdmissionReview for one eviction; blocks."""
        if (request.resource.resource, request.sub_resource) != ("pods", "eviction"):
            return verdict(request.uid, ())
        judged = self._judge(request)
        if isinstance(judged, Allow):
            return verdict(request.uid, ())
        facts = {"pod": f"{request.namespace}/{request.name}", "user": request.user_info.username}
        log.info("not evicted", extra={"facts": {**facts, "answer": judged.message}})
        return refusal(request.uid, _TOO_MANY_REQUESTS, judged.message)

    def _judge(self, request: AdmissionRequest) -> Answer:
        try:
            pod = self._client.get(Pod, request.namespace, request.name)
        except NotFound:
            # The eviction itself asks for the Pod next.
            return Allow()
        except KubeError as error:
            # KubeVirt lets it go. A guest that can move would be shut down for a question that was not answered.
            return Deny(f"kubevirt failed getting the pod: {_words(error)}")
        if is_attachment(pod):
            return self._judge_attachment(pod)
        name = vmi_of_launcher(pod)
        return self._judge_launcher(request, pod, name) if name else Allow()

    def _judge_attachment(self, pod: Pod) -> Answer:
        namespace = pod.metadata.namespace
        try:
            launcher = self._client.get(Pod, namespace, pod.metadata.owner_references[0].name)
        except NotFound:
            return Allow()
        except KubeError as error:
            return Deny(f"failed getting owner for hotplug pod: {_words(error)}")
        name = vmi_of_launcher(launcher)
        if not name:
            return Allow()
        try:
            self._client.get(VirtualMachineInstance, namespace, name)
        except NotFound:
            return Allow()
        except KubeError as error:
            return fail_to_get(_words(error))
        return judge_attachment(pod, name)

    def _judge_launcher(self, request: AdmissionRequest, pod: Pod, name: str) -> Answer:
        why: KubeError | None = None
        for _ in range(_TRIES):
            try:
                vmi = self._client.get(VirtualMachineInstance, request.namespace, name)
            except KubeError as error:
                # Also when it is not there: a launcher that nobody speaks for can be deleted, not evicted.
                return fail_to_get(_words(error))
            strategy = self._strategy()
            try:
                is_only_node = needs_a_node(vmi, strategy) and self._is_only_node()
            except KubeError as error:
                return Deny(f"kubevirt failed listing the nodes: {_words(error)}")
            judged = judge_launcher(pod, vmi, strategy, is_only_node=is_only_node)
            if not isinstance(judged, Mark):
                return judged
            try:
                is_kept = self._mark(request, vmi, judged)
            except Conflict as error:
                why = error
            except KubeError as error:
                return Deny(f"kubevirt failed marking the vmi for eviction: {_words(error)}")
            else:
                return judged if is_kept else Deny(_NOT_KEPT)
        return Deny(f"kubevirt failed marking the vmi for eviction: {_words(why)}")

    def _is_only_node(self) -> bool:
        # On one box, too: a guest that is marked there would wait for ever, and the drain with it.
        found = self._client.request("GET", Node.KIND.path(), query={"limit": str(_ENOUGH_NODES)})
        return len(found.get("items") or ()) < _ENOUGH_NODES

    def _mark(self, request: AdmissionRequest, vmi: VirtualMachineInstance, mark: Mark) -> bool:
        """Write the mark, against the version that was judged; whether the API server has kept it."""
        eviction = request.object or {}
        # Also away: the one who had an earlier eviction made is no part of this one.
        source = DESCHEDULER if is_by_descheduler(eviction) else None
        metadata = {"resourceVersion": vmi.metadata.resource_version, "annotations": {EVICTION_SOURCE: source}}
        body = {"metadata": metadata, "status": {"evacuationNodeName": mark.node}}
        query = {"dryRun": "All"} if is_dry_run(eviction, asked=bool(request.dry_run)) else {}
        path = VirtualMachineInstance.KIND.path(vmi.metadata.namespace, vmi.metadata.name)
        written = self._client.request("PATCH", path, body, query, _MERGE_PATCH)
        return bool((written.get("status") or {}).get("evacuationNodeName") == mark.node)


def _words(error: KubeError | None) -> str:
    return "" if error is None else error.message or str(error)
