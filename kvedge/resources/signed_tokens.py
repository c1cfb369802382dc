"""Tokens that roles sign for each other with a secret that they share: JWTs of one algorithm.

Used by the api role for uploads and clones, and by the controller, which believes what the api role has signed. Pure.
The algorithm is ours to choose (HS256): what the token's head says about it is compared, never followed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

import msgspec

# Clocks of two hosts differ.
SKEW: Final = timedelta(seconds=10)
# Ours have some 400 bytes.
_LONGEST: Final = 4096
_HEAD: Final = b'{"alg":"HS256","typ":"JWT"}'

T = TypeVar("T")


class BadToken(Exception):
    """A token that opens nothing; the text says why, to the log."""


def derive_key(secret: bytes, purpose: bytes) -> bytes:
    """The key of tokens for one purpose, made of something secret that all who sign or believe them share."""
    return hmac.digest(secret, purpose, hashlib.sha256)


def sign(key: bytes, payload: msgspec.Struct) -> str:
    """A token that says this."""
    signed = b".".join((_encode(_HEAD), _encode(msgspec.json.encode(payload))))
    return b".".join((signed, _encode(_signature(key, signed)))).decode("ascii")


def read(keys: Sequence[bytes], token: str, cls: type[T]) -> T:
    """What a token says that one of these keys has signed.

    Raises:
        BadToken: it is none, of another key, or says something else.
    """
    if len(token) > _LONGEST or not token.isascii():
        raise BadToken("it is no token of ours")
    signed, _, signature = token.encode().rpartition(b".")
    head, _, body = signed.partition(b".")
    given = _decode(signature)
    if not any(hmac.compare_digest(_signature(key, signed), given) for key in keys):
        raise BadToken("its signature is not ours")
    if _decode(head) != _HEAD:
        raise BadToken("its head is not ours")
    try:
        return msgspec.json.decode(_decode(body), type=cls)
    except msgspec.DecodeError as error:
        raise BadToken("it says something else than a token of ours") from error


def _signature(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, hashlib.sha256)


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise BadToken("it is no token of ours") from error
