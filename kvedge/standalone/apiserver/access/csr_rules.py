"""The requester of a CertificateSigningRequest, and the changes that each of its subresources may make.

Called by `builtin_admission` and the signing loop. Pure. The spec is settled when the request is made: the server
names the requester, and nothing of the spec changes; approval and certificate come through their own subresources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import MASTERS
from kvedge.standalone.apiserver.access.authorizer_rules import OWN_GROUPS
from kvedge.standalone.apiserver.kinds.rules.certificate_request_rules import APPROVED, DENIED, condition_types
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import forbidden

REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"


def groups_of(request: x509.CertificateSigningRequest) -> list[str]:
    """The groups that a certificate for this request would have."""
    return [str(attribute.value) for attribute in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def find_reserved_group(request: x509.CertificateSigningRequest, asked_by_groups: Sequence[str]) -> str:
    """The group of a request that whoever asks may not have, or nothing.

    A request makes no administrators. Administrators alone ask for kvedge's own roles, as `kvedge user role` and
    `kvedge user renew` do for them: those groups' rights depend on nothing that is stored, and Pods of the controllers
    are not looked at, so that an approver of requests would get them all.
    """
    refused = {MASTERS} if MASTERS in asked_by_groups else {MASTERS, *OWN_GROUPS}
    return next((group for group in groups_of(request) if group in refused), "")


def requester_fields(caller: Caller) -> JsonObject:
    """The fields of the spec that say who asks."""
    fields = {
        "username": caller.user,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": {key: list(values) for key, values in caller.extra.items()},
    }
    return {name: value for name, value in fields.items() if value}


def settle_create(obj: JsonObject, caller: Caller) -> None:
    """Let a new request say who really asks."""
    spec = obj.setdefault("spec", {})
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec.update(requester_fields(caller))


def settle_update(obj: JsonObject, live: JsonObject, subresource: str, now: str) -> None:
    """Keep what this subresource may not change, and note when conditions came."""
    obj["spec"] = live["spec"]
    before = live.get("status") or {}
    if not subresource:
        return
    status = obj.setdefault("status", {})
    if subresource == "approval":
        if "certificate" in before:
            status["certificate"] = before["certificate"]
        else:
            status.pop("certificate", None)
    known: dict[object, JsonObject] = {item.get("type"): item for item in before.get("conditions") or []}
    for condition in status.get("conditions") or []:
        old = known.get(condition.get("type"), {})
        condition.setdefault("lastUpdateTime", now)
        kept = old.get("lastTransitionTime") if old.get("status") == condition.get("status") else None
        condition.setdefault("lastTransitionTime", kept or now)


def decision_errors(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """What the status subresource may not do: approve or deny."""
    had, has = condition_types(old.get("status") or {}), condition_types(new.get("status") or {})
    return [
        forbidden("status.conditions", f'updates may not add a condition of type "{kind}"')
        for kind in (APPROVED, DENIED)
        if kind in has and kind not in had
    ]


def has_condition(request: JsonObject, kind: str) -> bool:
    """Whether that became of a request."""
    return kind in condition_types(request.get("status") or {})
