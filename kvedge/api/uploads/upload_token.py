"""Tokens that let their bearer upload into one claim, for five minutes: JWTs that this api role and its like sign.

Made by token_requests.py, judged by upload_proxy.py. Pure. The algorithm is ours to choose (HS256): what the token's
head says about it is compared, never followed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

TOKEN_LIFE: Final = timedelta(minutes=5)
# Clocks of two hosts differ.
SKEW: Final = timedelta(seconds=10)
# Ours have some 400 bytes.
_LONGEST: Final = 4096
_ISSUER: Final = "cdi-apiserver"
_OPERATION: Final = "Upload"
_RESOURCE: Final = "persistentvolumeclaims"
_HEAD: Final = b'{"alg":"HS256","typ":"JWT"}'


class BadToken(Exception):
    """A token that opens nothing; the text says why, to the log."""


class UploadGrant(msgspec.Struct, frozen=True):
    """The claim that a token is for."""

    namespace: str
    name: str


class _Payload(msgspec.Struct):
    iss: str
    iat: int
    exp: int
    operation: str
    resource: str
    namespace: str
    name: str


def token_key(secret: bytes) -> bytes:
    """The key of tokens, made of something secret that all api roles share."""
    return hmac.digest(secret, b"kvedge upload tokens", hashlib.sha256)


def sign_token(key: bytes, grant: UploadGrant, now: datetime) -> str:
    """A token for this claim."""
    begin = int(now.timestamp())
    end = int((now + TOKEN_LIFE).timestamp())
    payload = _Payload(_ISSUER, begin, end, _OPERATION, _RESOURCE, grant.namespace, grant.name)
    signed = b".".join((_encoded(_HEAD), _encoded(msgspec.json.encode(payload))))
    return b".".join((signed, _encoded(_signature(key, signed)))).decode("ascii")


def read_token(keys: Sequence[bytes], token: str, now: datetime) -> UploadGrant:
    """What a token is for.

    Args:
        keys: those that may have signed it.
        token: as a client sent it.
        now: the time; a token is good until ten seconds after its end, and from ten seconds before its begin.

    Raises:
        BadToken: it is none, of another key, for something else, or its time is over.
    """
    if len(token) > _LONGEST or not token.isascii():
        raise BadToken("it is no token of ours")
    signed, _, signature = token.encode().rpartition(b".")
    head, _, body = signed.partition(b".")
    given = _decoded(signature)
    if not any(hmac.compare_digest(_signature(key, signed), given) for key in keys):
        raise BadToken("its signature is not ours")
    if _decoded(head) != _HEAD:
        raise BadToken("its head is not ours")
    try:
        payload = msgspec.json.decode(_decoded(body), type=_Payload)
    except msgspec.DecodeError as error:
        raise BadToken("it says something else than a token of ours") from error
    if (payload.iss, payload.operation, payload.resource) != (_ISSUER, _OPERATION, _RESOURCE):
        raise BadToken("it is for something else than an upload into a claim")
    moment = now.timestamp()
    if not payload.iat - SKEW.total_seconds() <= moment <= payload.exp + SKEW.total_seconds():
        raise BadToken("its time is over, or has not come")
    return UploadGrant(payload.namespace, payload.name)


def _signature(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, hashlib.sha256)


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise BadToken("it is no token of ours") from error
