"""What the server does with a CertificateSigningRequest: sign it, say why not, forget it, or leave it to others.

Called by csr_loop. Pure; the time comes in. Only requests for client certificates of this API are signed here, and
only approved ones.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.access.csr_rules import CLIENT_SIGNER, find_reserved_group, groups_of, has_condition
from kvedge.standalone.apiserver.kinds.rules.certificate_request_rules import (
    APPROVED,
    DENIED,
    FAILED,
    parse_certificate_request,
)
from kvedge.standalone.apiserver.requests.write_rules import parse_timestamp

LONGEST: Final = timedelta(days=365)
_SHORTEST: Final = timedelta(minutes=10)
# As kube-controller-manager has it.
_DECIDED_LIFE: Final = timedelta(hours=1)
_PENDING_LIFE: Final = timedelta(hours=24)
_CLIENT_USAGE: Final = "client auth"
_HARMLESS_USAGES: Final = frozenset({"digital signature", "key encipherment"})


class Sign(Struct, frozen=True):
    """Issue a certificate for so long."""

    request: x509.CertificateSigningRequest
    life: timedelta


class Fail(Struct, frozen=True):
    """Say why it will never be signed."""

    reason: str


def plan_request(obj: JsonObject) -> Sign | Fail | None:
    """What is to be done with a request now; None for nothing."""
    spec, status = obj["spec"], obj.get("status") or {}
    if spec.get("signerName") != CLIENT_SIGNER or status.get("certificate"):
        return None
    if not has_condition(obj, APPROVED) or has_condition(obj, DENIED) or has_condition(obj, FAILED):
        return None
    try:
        request = parse_certificate_request(spec["request"])
    except ValueError as error:
        return Fail(str(error))
    complaint = _complaint(request, set(spec.get("usages") or ()), spec.get("groups") or ())
    if complaint:
        return Fail(complaint)
    seconds = spec.get("expirationSeconds")
    life = LONGEST if seconds is None else timedelta(seconds=seconds)
    return Sign(request, max(_SHORTEST, min(life, LONGEST)))


def is_old(obj: JsonObject, now: datetime) -> bool:
    """Whether a request can go: long decided, long not decided, or its certificate has ended."""
    status = obj.get("status") or {}
    moments = [
        parse_timestamp(condition["lastUpdateTime"])
        for condition in status.get("conditions") or []
        if condition.get("type") in (APPROVED, DENIED, FAILED) and condition.get("lastUpdateTime")
    ]
    if status.get("certificate") and _has_ended(status["certificate"], now):
        return True
    if moments:
        # An approved request that waits for its signer may wait as long as an undecided one.
        waits = has_condition(obj, APPROVED) and not status.get("certificate") and not has_condition(obj, FAILED)
        return now - max(moments) > (_PENDING_LIFE if waits else _DECIDED_LIFE)
    return now - parse_timestamp(obj["metadata"]["creationTimestamp"]) > _PENDING_LIFE


def _complaint(request: x509.CertificateSigningRequest, usages: set[str], asked_by_groups: Sequence[str]) -> str:
    if _CLIENT_USAGE not in usages or usages - _HARMLESS_USAGES - {_CLIENT_USAGE}:
        return 'usages must be "client auth", and nothing beyond "digital signature" and "key encipherment"'
    reserved = find_reserved_group(request, asked_by_groups)
    if reserved:
        return f"a certificate of group {reserved} is not signed on request"
    names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or not names[0].value:
        return "the subject must have one common name, which is the user's name"
    if not all(name.isprintable() for name in (str(names[0].value), *groups_of(request))):
        return "the names of users and groups may not have control characters"
    return ""


def _has_ended(certificate: str, now: datetime) -> bool:
    try:
        return x509.load_pem_x509_certificate(base64.b64decode(certificate)).not_valid_after_utc < now
    except ValueError:
        # Another signer's, in a form of its own: its age will tell.
        return False
