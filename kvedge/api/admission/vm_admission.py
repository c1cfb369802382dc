"""The webhooks of VMs: what they name as instance type and preference has to be looked up.

Mounted by api_run.py beside the other webhooks. Asks the API server, in a worker thread and with a short deadline, for
the types that a VM names and for the labels of volumes that it wants to have them read from; a VM that names none costs
no question. A type that is not there keeps no VM out, as in KubeVirt: it starts once the type is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from kvedge.api.access_reviews import REVIEWS, is_allowed, review_of
from kvedge.api.admission.admission_message import AdmissionRequest, mutation, parse_review, refusal
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.instancetypes.inference import (
    DeniedError,
    InferenceError,
    Inferred,
    asks_to_infer,
    infer_matchers,
    with_inferred,
)
from kvedge.api.admission.instancetypes.matcher_rules import matchers_are_complete
from kvedge.api.admission.instancetypes.typed_template import NOTHING_SEEN, SeenTypes
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.storage.clone_rules import sufficient_rights, whose_rights
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.webhook_answers import answer_judged
from kvedge.api.secret_paths import SecretPaths
from kvedge.api.served_paths import MUTATE_VM_PATH, VALIDATE_VM_PATH
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.type_finder import TypeFinder, TypeMissing
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.instancetypes.application import VmTypes
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE
from kvedge.resources.kinds import Kind
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.clock import Clock, rfc3339

log = logging.getLogger(__name__)

# Less than the API server waits for us; a VM may take several questions.
_ASK_SECONDS: Final = 3.0
_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = 403
_INTERNAL: Final = 500


class VmAdmission:
    """Judges and completes VMs."""

    def __init__(self, client: KubeClient, judgement: Judgement, cluster: Callable[[], Cluster], clock: Clock) -> None:
        """`cluster` says, to any thread, what holds when a write is judged."""
        self._client = client.hurry(_ASK_SECONDS)
        self._finder = TypeFinder(self._client)
        self._judgement = judgement
        self._cluster = cluster
        self._clock = clock

    def routes(self, paths: SecretPaths) -> list[web.RouteDef]:
        """The webhooks, which ask: at paths that callers must know."""
        return [
            paths.route(MUTATE_VM_PATH, partial(self._handle, self._complete, self._mutate)),
            paths.route(VALIDATE_VM_PATH, partial(self._handle, self._look_up, self._validate)),
        ]

    async def _handle(
        self,
        ask: Callable[[AdmissionRequest], Any],
        answer: Callable[[AdmissionRequest, Any], JsonObject],
        request: web.Request,
    ) -> web.Response:
        body = await request.read()
        try:
            review = await self._judgement.ask(parse_review, body)
            found = None
            if _names_types(review):
                found = await self._judgement.ask_server(partial(ask, review))
            answered = await self._judgement.ask(lambda _: msgspec.json.encode(answer(review, found)), body)
        except (DecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
        return web.Response(body=answered, content_type="application/json")

    def _complete(self, review: AdmissionRequest) -> tuple[Inferred, JsonObject | None] | JsonObject:
        """What is read from volumes, and the preference; or the answer that refuses the VM."""
        vm, document = _readable(review), review.object
        if vm is None or document is None or any(matchers_are_complete(vm)):
            return Inferred(), None
        try:
            inferred = Inferred()
            if asks_to_infer(document["spec"]):
                inferred = infer_matchers(document["spec"], review.namespace, partial(self._read, review))
                vm = decode(VirtualMachine, {**document, "spec": with_inferred(document["spec"], inferred)})
            return inferred, self._find_preference(review, vm)
        except DeniedError as error:
            return refusal(review.uid, _FORBIDDEN, str(error))
        except (InferenceError, NotFound) as error:
            return refusal(review.uid, _BAD_REQUEST, str(error))
        except KubeError as error:
            return refusal(review.uid, _INTERNAL, f"the API server: {error.message or error}")

    def _find_preference(self, review: AdmissionRequest, vm: VirtualMachine) -> JsonObject | None:
        try:
            return self._finder.find_spec(PREFERENCE, review.namespace, vm.spec.preference, vm.status.preference_ref)
        except TypeMissing:
            return None

    def _mutate(self, review: AdmissionRequest, found: Any) -> JsonObject:
        if isinstance(found, dict):
            return found
        inferred, preference = (Inferred(), None) if found is None else found
        patch = plan_mutation(
            review, self._cluster(), rfc3339(self._clock.now()), inferred=inferred, preference=preference
        )
        return mutation(review.uid, patch)

    def _look_up(self, review: AdmissionRequest) -> SeenTypes | JsonObject:
        """The types; or the answer that refuses the VM."""
        vm = _readable(review)
        if vm is None or any(matchers_are_complete(vm)):
            return NOTHING_SEEN
        specs: dict[str, JsonObject | None] = {}
        missing = []
        pairs = (
            (INSTANCETYPE, vm.spec.instancetype, vm.status.instancetype_ref),
            (PREFERENCE, vm.spec.preference, vm.status.preference_ref),
        )
        try:
            for part, matcher, ref in pairs:
                try:
                    specs[part.member] = self._finder.find_spec(part, review.namespace, matcher, ref)
                except TypeMissing as error:
                    missing.append(f"spec.{part.member}: {error}: the VM starts once it is there")
        except KubeError as error:
            return refusal(review.uid, _INTERNAL, f"the API server: {error.message or error}")
        return SeenTypes(VmTypes(**specs), tuple(missing))

    def _validate(self, review: AdmissionRequest, found: Any) -> JsonObject:
        if isinstance(found, dict):
            return found
        judged = plan_verdict(review, self._cluster(), seen=found or NOTHING_SEEN)
        return answer_judged(review, judged, log)

    def _read(self, review: AdmissionRequest, kind: Kind, namespace: str, name: str) -> JsonObject:
        try:
            path = kind.path(namespace, name)
        except ValueError as error:
            raise InferenceError(f"unable to infer defaults from {kind.kind}: {error}") from error
        if namespace != review.namespace:
            self._check_foreign(whose_rights(review), kind, namespace)
        found: JsonObject = self._client.request("GET", path)
        return found

    def _check_foreign(self, user: UserInfo, kind: Kind, namespace: str) -> None:
        """This role may read it, which says nothing of the VM's author: whoever may see or copy it may."""
        seeing = {
            "namespace": namespace,
            "verb": "get",
            "group": kind.group,
            "version": kind.version,
            "resource": kind.plural,
        }
        rights = (seeing, *sufficient_rights(namespace))
        if not any(is_allowed(self._client.request("POST", REVIEWS, review_of(user, right))) for right in rights):
            raise DeniedError(
                f"user {user.username} may neither get {kind.qualified_plural} in namespace {namespace} nor clone from"
                f" there: name the type, or have a RoleBinding made in {namespace}"
            )


def _names_types(review: AdmissionRequest) -> bool:
    spec = (review.object or {}).get("spec")
    if not isinstance(spec, dict) or review.sub_resource or review.operation not in ("CREATE", "UPDATE"):
        return False
    return bool(spec.get(INSTANCETYPE.member) or spec.get(PREFERENCE.member))


def _readable(review: AdmissionRequest) -> VirtualMachine | None:
    """The VM; None for a document that is refused anyway."""
    document = review.object
    if document is None or any(size_is_sane(parts_to_judge(document))):
        return None
    try:
        vm = decode(VirtualMachine, document)
    except DecodeError:
        return None
    vm.metadata.namespace = vm.metadata.namespace or review.namespace
    return vm
