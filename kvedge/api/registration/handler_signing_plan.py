"""What the api role does with a handler's request for a certificate: approve and sign it, deny it, or remove it.

Called by handler_signing_loop.py. Pure; the time comes in. The user who asks is known by the API server's word
(`spec.username` and its kin), never what the request says: a handler gets a certificate for its own node and for
nothing else, least of all for the name by which handlers know the api role.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct

from kvedge.resources.manifests.role_rights import HANDLER_SIGNER
from kvedge.resources.moves.crossing import CREDENTIAL_SECONDS, crossing_server_name, is_crossing_id
from kvedge.resources.types.certificate_requests import APPROVED, DENIED, FAILED, CertificateSigningRequest
from kvedge.runtime.clock import parse_rfc3339
from kvedge.runtime.tls.certificate_requests import RequestedNames, parse_request, read_requested_names
from kvedge.runtime.tls.certificates import (
    HANDLER_NAME,
    LEAF_LIFE,
    MIGRATION_NAME,
    CertificateError,
    LeafRequest,
    handler_server_name,
)

# What a handler's certificate may be for, and the name that it then has.
_NAMES: Final = {"server auth": HANDLER_NAME, "client auth": MIGRATION_NAME}
_HARMLESS_USAGES: Final = frozenset({"digital signature", "key encipherment"})
_SHORTEST: Final = timedelta(minutes=10)
# A handler takes its certificate within seconds; what is older is of no use to anybody.
REQUEST_LIFE: Final = timedelta(hours=1)


class Approve(Struct, frozen=True):
    """It is the handler of that node, and asks for no more."""

    node: str


class Deny(Struct, frozen=True):
    """It is not, or asks for more."""

    reason: str


class Sign(Struct, frozen=True):
    """It is approved: issue this certificate for the request's key."""

    key: ec.EllipticCurvePublicKey
    leaf: LeafRequest


class Remove(Struct, frozen=True):
    """It was decided long ago."""


Step = Approve | Deny | Sign | Remove


def plan_request(request: CertificateSigningRequest, now: datetime) -> Step | None:
    """The next step for a request; None when there is nothing to do."""
    if request.spec.signer_name != HANDLER_SIGNER or request.metadata.deletion_timestamp:
        return None
    status = request.status
    if status.certificate or status.condition(DENIED) or status.condition(FAILED):
        return Remove() if _is_old(request, now) else None
    if not request.spec.requestor.is_handler and (crossing := _find_crossing(request)) is not None:
        return _plan_crossing(request, *crossing)
    complaint, key = _judge(request)
    if key is None:
        # An approval by somebody else is no reason to sign what we would not.
        return None if status.condition(APPROVED) else Deny(complaint)
    node = request.spec.requestor.node
    if status.condition(APPROVED) is None:
        return Approve(node)
    seconds = request.spec.expiration_seconds
    life = LEAF_LIFE if seconds is None else max(_SHORTEST, min(timedelta(seconds=seconds), LEAF_LIFE))
    # All names are ours to write: of the request, only the key is taken.
    name = _name_for(request)
    serves = name == HANDLER_NAME
    leaf = LeafRequest(name, hosts=[handler_server_name(node)], server=serves, client=not serves, life=life)
    return Sign(key, leaf)


def _plan_crossing(
    request: CertificateSigningRequest, migration_id: str, key: ec.EllipticCurvePublicKey
) -> Sign | None:
    """A user's request for another box that sends a guest here: whoever may approve it has to, which we do not."""
    if request.status.condition(APPROVED) is None:
        return None
    wanted = request.spec.expiration_seconds or CREDENTIAL_SECONDS
    life = max(_SHORTEST, min(timedelta(seconds=wanted), timedelta(seconds=CREDENTIAL_SECONDS)))
    host = crossing_server_name(migration_id)
    return Sign(key, LeafRequest(MIGRATION_NAME, hosts=[host], server=False, client=True, life=life))


def _find_crossing(request: CertificateSigningRequest) -> tuple[str, ec.EllipticCurvePublicKey] | None:
    """The migration that a request is for, and its key; None for one that is not of this kind."""
    if _name_for(request) != MIGRATION_NAME:
        return None
    try:
        parsed = parse_request(base64.b64decode(request.spec.request, validate=True))
        names = read_requested_names(parsed)
    except (CertificateError, ValueError):
        return None
    migration_id = names.hosts[0].partition(".")[0] if len(names.hosts) == 1 else ""
    wanted = RequestedNames((MIGRATION_NAME,), hosts=(crossing_server_name(migration_id),))
    key = parsed.public_key()
    if not is_crossing_id(migration_id) or names != wanted or not isinstance(key, ec.EllipticCurvePublicKey):
        return None
    return migration_id, key


def _is_old(request: CertificateSigningRequest, now: datetime) -> bool:
    """By the times that we wrote ourselves: the API server's clock may be another one."""
    moments = [parse_rfc3339(each.last_update_time) for each in request.status.conditions if each.last_update_time]
    return bool(moments) and now - max(moments) > REQUEST_LIFE


def _name_for(request: CertificateSigningRequest) -> str:
    """The name of a certificate with these usages; empty when no handler gets one."""
    wanted = set(request.spec.usages) - _HARMLESS_USAGES
    return _NAMES.get(wanted.pop(), "") if len(wanted) == 1 else ""


def _judge(request: CertificateSigningRequest) -> tuple[str, ec.EllipticCurvePublicKey | None]:
    """What is wrong with a request, or its key."""
    who = request.spec.requestor
    if not who.is_handler or not who.node:
        return f"{who.username or 'nobody'} is not the handler of a node", None
    common_name = _name_for(request)
    if not common_name:
        return (
            "a handler's certificate is for server auth or for client auth, with digital signature and key "
            "encipherment at most",
            None,
        )
    try:
        parsed = parse_request(base64.b64decode(request.spec.request, validate=True))
        names = read_requested_names(parsed)
    except (CertificateError, ValueError) as error:
        return str(error), None
    if names != RequestedNames((common_name,), hosts=(handler_server_name(who.node),)):
        return (
            f"{who.username} may ask for {common_name} at {handler_server_name(who.node)} and for nothing else",
            None,
        )
    key = parsed.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return "the key must be an elliptic curve key", None
    return "", key
