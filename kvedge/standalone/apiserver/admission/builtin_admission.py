"""What the API server itself has to say of a write, before and after the webhooks: rights handed on, certificates,
what Pods may be, and what they may ask for.

Wraps the webhooks' admission; called by the write path. Asks the authorizer, changes only the object of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP
from kvedge.standalone.apiserver.access import csr_rules
from kvedge.standalone.apiserver.access.authorizer_rules import Authorizer
from kvedge.standalone.apiserver.access.csr_rules import REQUESTS
from kvedge.standalone.apiserver.access.rbac_guard import RbacGuard
from kvedge.standalone.apiserver.admission.admission_protocol import Admission, Review
from kvedge.standalone.apiserver.admission.limit_ranger import LimitRanger
from kvedge.standalone.apiserver.admission.pod_security import PodSecurity
from kvedge.standalone.apiserver.admission.storage_admission import StorageAdmission
from kvedge.standalone.apiserver.kinds.rules import pod_rules
from kvedge.standalone.apiserver.kinds.rules.certificate_request_rules import parse_certificate_request
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.requests.write_rules import invalid, target_of, timestamp
from kvedge.standalone.apiserver.wire.api_errors import Forbidden
from kvedge.standalone.apiserver.wire.json_values import same

_GROUP: Final = "certificates.k8s.io"


class BuiltInAdmission:
    """Admission of the built-in kinds around that of the webhooks."""

    def __init__(
        self,
        inner: Admission,
        authorizer: Authorizer,
        guard: RbacGuard,
        pods: PodSecurity,
        limits: LimitRanger,
        storage: StorageAdmission,
        now: Callable[[], datetime],
    ) -> None:
        self._inner = inner
        self._authorizer = authorizer
        self._guard = guard
        self._pods = pods
        self._limits = limits
        self._storage = storage
        self._now = now

    async def mutate(self, review: Review) -> JsonObject | None:
        """The object as it is to be written.

        Raises:
            ApiError: somebody refuses it.
        """
        self._check_amount(review)
        self._limits.complete(review)
        self._storage.complete(review)
        obj = await self._inner.mutate(review)
        if obj is None:
            return None
        context = review.context
        if context.kind.group == RBAC_GROUP:
            self._guard.check(context, obj, review.old)
        elif context.kind.storage == REQUESTS:
            self._settle_request(review, obj)
        return obj

    async def validate(self, review: Review) -> None:
        """Return when nobody objects.

        Raises:
            ApiError: somebody refuses it.
        """
        if review.context.kind.storage == REQUESTS and review.obj is not None:
            self._check_request(review, review.obj)
        self._pods.check(review)
        self._limits.check(review)
        self._storage.check(review)
        await self._inner.validate(review)

    @staticmethod
    def _check_amount(review: Review) -> None:
        """First of all: the rest looks at every container, in the event loop."""
        context = review.context
        if review.old is not None or review.obj is None or context.kind.storage != "pods":
            return
        errors = list(pod_rules.check_amount_of_containers(review.obj))
        if errors:
            raise invalid(context.kind, review.name, errors)

    def _settle_request(self, review: Review, obj: JsonObject) -> None:
        if review.old is None:
            csr_rules.settle_create(obj, review.context.caller)
        else:
            csr_rules.settle_update(obj, review.old, review.context.target.subresource, timestamp(self._now()))

    def _check_request(self, review: Review, obj: JsonObject) -> None:
        context, signer = review.context, obj["spec"]["signerName"]
        if review.old is None:
            self._check_subject(review, obj)
            return
        subresource = context.target.subresource
        if subresource == "approval" and not self._may(context.caller, "approve", signer):
            why = f'user not permitted to approve requests with signerName "{signer}"'
            raise Forbidden(target_of(context.kind, review.name), why)
        if subresource == "status":
            errors = csr_rules.decision_errors(obj, review.old)
            if errors:
                raise invalid(context.kind, review.name, errors)
            if not same(obj.get("status"), review.old.get("status")) and not self._may(context.caller, "sign", signer):
                why = f'user not permitted to sign requests with signerName "{signer}"'
                raise Forbidden(target_of(context.kind, review.name), why)

    def _check_subject(self, review: Review, obj: JsonObject) -> None:
        if obj["spec"]["signerName"] != csr_rules.CLIENT_SIGNER:
            return
        request = parse_certificate_request(obj["spec"]["request"])
        reserved = csr_rules.find_reserved_group(request, review.context.caller.groups)
        if reserved:
            why = f"use of {csr_rules.CLIENT_SIGNER} signer with {reserved} group is not allowed"
            raise Forbidden(target_of(review.context.kind, review.name), why)

    def _may(self, caller: Caller, verb: str, signer: str) -> bool:
        """Whether the caller has the verb on this signer, or on all of its domain."""
        domain = signer.partition("/")[0]
        return any(
            self._authorizer.allows(caller, RequestTarget(verb, "", _GROUP, "v1", "", "signers", name))
            for name in (signer, f"{domain}/*")
        )
