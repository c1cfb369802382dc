"""The caller: the subject of the client's certificate or the account of its token, or a user that it may impersonate.

Used by the dispatcher. Identity comes from the channel alone: a client without a certificate of the box's own authority
or one of its tokens is refused. A connection from inside this process bears the identity for which it was opened.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDictProxy

from kvedge.resources.role_users import ACCOUNT_PREFIX
from kvedge.standalone.apiserver.access.authorizer_rules import AUTHENTICATED, Authorizer
from kvedge.standalone.apiserver.access.service_tokens import ISSUER
from kvedge.standalone.apiserver.requests.request_context import OWN_CALLER, Caller
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, Forbidden, Target, Unauthorized

_IMPERSONATE: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
_UNAUTHENTICATED: Final = "system:unauthenticated"
_ANONYMOUS: Final = "system:anonymous"


class TokenCheck(Protocol):
    """Finds the account that a bearer token is of."""

    def account_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Caller | None:
        """The account; None for a token that is nobody's, or for none of these audiences."""


class Authenticator:
    """Finds out who sends a request."""

    def __init__(self, authorizer: Authorizer, tokens: TokenCheck) -> None:
        self._authorizer = authorizer
        self._tokens = tokens

    def caller_of(self, request: web.BaseRequest) -> Caller:
        """The caller of a request.

        Raises:
            Unauthorized: there is neither a verified client certificate nor a good token, or it names nobody.
            BadRequest: it says partly whom it wants to act as.
            Forbidden: it wants to act as somebody else and may not.
        """
        caller = self._of_channel(request)
        headers = request.headers
        if not any(name.lower().startswith(_IMPERSONATE) for name in headers):
            return caller
        return impersonate(self._authorizer, caller, headers)

    def _of_channel(self, request: web.BaseRequest) -> Caller:
        own: Caller | None = request.get(OWN_CALLER)
        if own is not None:
            return own
        certificate = request.get_extra_info("peercert")
        if certificate:
            if has_ended(certificate, time.time()):
                raise Unauthorized()
            return caller_of_certificate(certificate)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        caller = self._tokens.account_of(token.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise Unauthorized()
        return caller


def has_ended(certificate: Mapping[str, Any], now: float) -> bool:
    """Whether a verified certificate is good no more: connections may last for days, and begin after its end, too."""
    ends: str = certificate.get("notAfter", "")
    return not ends or ssl.cert_time_to_seconds(ends) < now


def caller_of_certificate(certificate: Mapping[str, Any]) -> Caller:
    """The user (CN) and the groups (each O) of a verified certificate, as `ssl` gives it.

    Raises:
        Unauthorized: it names nobody.
    """
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    users = [value for name, value in pairs if name == "commonName"]
    groups = tuple(value for name, value in pairs if name == "organizationName")
    # Two names would let two readers of one certificate see two users.
    if len(users) != 1:
        raise Unauthorized()
    return caller_named(users[0], groups)


def caller_named(user: str, groups: Sequence[str]) -> Caller:
    """The user of that name in these groups, and among those who are known.

    Raises:
        Unauthorized: it names nobody.
    """
    # A line's end in a name would, behind the front proxy, begin a header of its own.
    if not user or not _are_printable((user, *groups)):
        raise Unauthorized()
    return Caller(user, tuple(dict.fromkeys((*groups, AUTHENTICATED))))


def impersonate(authorizer: Authorizer, caller: Caller, headers: CIMultiDictProxy[str]) -> Caller:
    """The identity that somebody takes on to see what another one may do.

    Raises:
        BadRequest: a group or another attribute is named, but no user.
        Forbidden: the caller lacks the right to act as this user, or with one of the groups or attributes.
    """
    wanted = _read_impersonation(headers)
    for target in _questions(wanted):
        if not authorizer.allows(caller, target):
            raise _may_not(caller, target)
    groups = list(wanted.groups)
    if not groups and wanted.user.startswith(ACCOUNT_PREFIX):
        namespace = wanted.user.removeprefix(ACCOUNT_PREFIX).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    groups.append(_UNAUTHENTICATED if wanted.user == _ANONYMOUS else AUTHENTICATED)
    return Caller(wanted.user, tuple(dict.fromkeys(groups)), wanted.uid, wanted.extra)


def _read_impersonation(headers: CIMultiDictProxy[str]) -> Caller:
    user = headers.get("Impersonate-User", "")
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_EXTRA):
            key = unquote(name.lower().removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    groups = tuple(headers.getall("Impersonate-Group", []))
    if not _are_printable((user, *groups, *extra, *(value for values in extra.values() for value in values))):
        raise BadRequest("who is impersonated may not have control characters in a name")
    if not user:
        raise BadRequest("a group, a UID or another attribute cannot be impersonated without a user: Impersonate-User")
    return Caller(user, groups, headers.get("Impersonate-Uid", ""), extra)


def _are_printable(names: Iterable[str]) -> bool:
    return all(name.isprintable() for name in names)


def _questions(wanted: Caller) -> Iterator[RequestTarget]:
    """One question for each thing that is taken on."""
    account = wanted.user.removeprefix(ACCOUNT_PREFIX).split(":")
    if wanted.user.startswith(ACCOUNT_PREFIX) and len(account) == 2 and all(account):
        yield _question("serviceaccounts", account[1], namespace=account[0])
    else:
        yield _question("users", wanted.user)
    for group in wanted.groups:
        yield _question("groups", group)
    if wanted.uid:
        yield _question("uids", wanted.uid, _AUTHENTICATION)
    for key, values in wanted.extra.items():
        for value in values:
            yield _question("userextras", value, _AUTHENTICATION, key)


def _question(resource: str, name: str, group: str = "", subresource: str = "", namespace: str = "") -> RequestTarget:
    version = "v1"
    return RequestTarget("impersonate", "", group, version, namespace, resource, name, subresource)


def _may_not(caller: Caller, target: RequestTarget) -> Forbidden:
    resource = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = f'User "{caller.user}" cannot impersonate resource "{resource}" in API group "{target.group}" {where}'
    return Forbidden(Target(target.resource, target.name, target.group), why)
