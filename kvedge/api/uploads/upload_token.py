"""Tokens that let their bearer upload into one claim, for five minutes: JWTs that this api role and its like sign.

Made by token_requests.py, judged by upload_proxy.py. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kvedge.resources.signed_tokens import SKEW, BadToken, derive_key, read, sign

TOKEN_LIFE: Final = timedelta(minutes=5)
_ISSUER: Final = "cdi-apiserver"
_OPERATION: Final = "Upload"
_RESOURCE: Final = "persistentvolumeclaims"

__all__ = ["TOKEN_LIFE", "BadToken", "UploadGrant", "read_token", "sign_token", "token_key"]


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
    return derive_key(secret, b"kvedge upload tokens")


def sign_token(key: bytes, grant: UploadGrant, now: datetime) -> str:
    """A token for this claim."""
    begin = int(now.timestamp())
    end = int((now + TOKEN_LIFE).timestamp())
    return sign(key, _Payload(_ISSUER, begin, end, _OPERATION, _RESOURCE, grant.namespace, grant.name))


def read_token(keys: Sequence[bytes], token: str, now: datetime) -> UploadGrant:
    """What a token is for.

    Args:
        keys: those that may have signed it.
        token: as a client sent it.
        now: the time; a token is good until ten seconds after its end, and from ten seconds before its begin.

    Raises:
        BadToken: it is none, of another key, for something else, or its time is over.
    """
    payload = read(keys, token, _Payload)
    if (payload.iss, payload.operation, payload.resource) != (_ISSUER, _OPERATION, _RESOURCE):
        raise BadToken("it is for something else than an upload into a claim")
    moment = now.timestamp()
    if not payload.iat - SKEW.total_seconds() <= moment <= payload.exp + SKEW.total_seconds():
        raise BadToken("its time is over, or has not come")
    return UploadGrant(payload.namespace, payload.name)
