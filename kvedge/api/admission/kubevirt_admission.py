"""The webhook of the KubeVirt object: the one whose answer depends on what else there is.

Mounted by api_service.py beside the other webhooks. Asks the API server, in a worker thread and with a short deadline,
whether there is another KubeVirt object (on create) or any VM (on a delete that shall be blocked by them).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import msgspec
from aiohttp import web

from kvedge.api.admission.admission_message import AdmissionRequest, parse_review, refusal, verdict
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.kubevirt_rules import ALREADY_CREATED, judge_spec, uninstall_refusal
from kvedge.api.secret_paths import SecretPaths
from kvedge.api.served_paths import VALIDATE_KUBEVIRT_PATH
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import DecodeError, JsonObject
from kvedge.resources.kinds import Kind
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

# Less than the API server waits for us.
_ASK_SECONDS: Final = 4.0
_BAD_REQUEST: Final = 400
_INTERNAL: Final = 500
# In KubeVirt's order and words.
_WORKLOADS: Final = (
    (VirtualMachineInstance.KIND, "Virtual Machine Instances"),
    (VirtualMachine.KIND, "Virtual Machines"),
    (VirtualMachineInstanceReplicaSet.KIND, "Virtual Machine Instance Replica Sets"),
)


class KubeVirtAdmission:
    """Judges writes of the KubeVirt object."""

    def __init__(self, client: KubeClient, judgement: Judgement) -> None:
        self._client = client.hurry(_ASK_SECONDS)
        self._judgement = judgement

    def routes(self, paths: SecretPaths) -> list[web.RouteDef]:
        """The webhook, which asks: at a path that callers must know."""
        return [paths.route(VALIDATE_KUBEVIRT_PATH, self._handle)]

    async def _handle(self, request: web.Request) -> web.Response:
        try:
            review, judged = await self._judgement.ask(_judge, await request.read())
        except (DecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
        answer = await self._judgement.ask_server(partial(self._refusal, review)) or judged
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _refusal(self, request: AdmissionRequest) -> JsonObject | None:
        try:
            problem = self._problem(request)
        except KubeError as error:
            return refusal(request.uid, _INTERNAL, f"the API server: {error.message or error}")
        if problem is None:
            return None
        log.info("refused", extra={"facts": {"kind": "kubevirts", "operation": request.operation}})
        return refusal(request.uid, _BAD_REQUEST, problem)

    def _problem(self, request: AdmissionRequest) -> str | None:
        if request.operation == "CREATE":
            return ALREADY_CREATED if self._are_there(KubeVirt.KIND) else None
        if request.operation == "DELETE":
            present = next((words for kind, words in _WORKLOADS if self._are_there(kind)), "")
            return uninstall_refusal(request.old_object, present)
        return None

    def _are_there(self, kind: Kind) -> bool:
        try:
            found = self._client.request("GET", kind.path(), query={"limit": "1"})
        except NotFound:
            return False
        return bool(found.get("items"))


def _judge(body: bytes) -> tuple[AdmissionRequest, JsonObject]:
    """The review, and what is said of it alone."""
    request = parse_review(body)
    if request.object is None or request.sub_resource:
        return request, verdict(request.uid, ())
    judged = judge_spec(request)
    return request, verdict(request.uid, judged.causes, judged.warnings)
