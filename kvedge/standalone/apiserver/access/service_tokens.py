"""Tokens of service accounts: signed JWTs, bound to the account's UID, and to a Pod's or a Secret's where they are its.

Used by the dispatcher's authenticator, by token reviews and by the `serviceaccounts/token` subresource. Touches the
directory of the box's keys only. A token counts while it has not ended and the very account, Pod and Secret that it was
made for are there: an account that was deleted and made again does not inherit it.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from msgspec import Struct

from kvedge.resources.codec import learn
from kvedge.resources.role_users import ACCOUNT_PREFIX
from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_durably
from kvedge.standalone.apiserver.access.authorizer_rules import AUTHENTICATED
from kvedge.standalone.apiserver.access.pki import BadKeyFile, load_key
from kvedge.standalone.apiserver.requests.request_context import Caller

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
SHORTEST_SECONDS: Final = 600
LONGEST_SECONDS: Final = int(timedelta(days=365).total_seconds())
_ALGORITHM: Final = "ES256"
_NUMBER_BYTES: Final = 32
# A token is a few hundred bytes; nobody makes us decode more.
_LONGEST_TOKEN: Final = 8192
CREDENTIAL_EXTRA: Final = "authentication.kubernetes.io/credential-id"
_POD_EXTRA: Final = "authentication.kubernetes.io/pod-"


class _Header(msgspec.Struct):
    alg: str
    kid: str


class _Account(msgspec.Struct):
    name: str
    uid: str


class _Binding(msgspec.Struct, omit_defaults=True):
    namespace: str
    serviceaccount: _Account
    pod: _Account | None = None
    secret: _Account | None = None


class _Claims(msgspec.Struct):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    jti: str
    nbf: int
    sub: str
    kubernetes: _Binding = msgspec.field(name="kubernetes.io")


learn(_Header)
learn(_Claims)


class BoundTo(Struct, frozen=True):
    """A Pod or a Secret of an account's namespace, this very one."""

    name: str
    uid: str


class AccountId(Struct, frozen=True):
    """A service account, this very one, as one of its Pods has it where `pod` is given, or one of its Secrets."""

    namespace: str
    name: str
    uid: str
    pod: BoundTo | None = None
    secret: BoundTo | None = None

    @property
    def user(self) -> str:
        """The user name of whoever has its token."""
        return f"{ACCOUNT_PREFIX}{self.namespace}:{self.name}"


class ServiceTokens:
    """Makes and checks tokens; `exists` tells whether the account is there with that UID, and its Pod and Secret."""

    def __init__(self, directory: Path, exists: Callable[[AccountId], bool], now: Callable[[], datetime]) -> None:
        self._key = _key(directory / "service-account.key")
        public = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._key_id = _encode(hashlib.sha256(public).digest())
        self._exists = exists
        self._now = now

    def issue(self, account: AccountId, audiences: Sequence[str], seconds: int) -> tuple[str, datetime]:
        """A token for the account, and when it ends."""
        now = int(self._now().timestamp())
        pod, secret = (
            None if each is None else _Account(each.name, each.uid) for each in (account.pod, account.secret)
        )
        claims = _Claims(
            aud=list(audiences),
            exp=now + seconds,
            iat=now,
            iss=ISSUER,
            jti=str(uuid.uuid4()),
            nbf=now,
            sub=account.user,
            kubernetes=_Binding(account.namespace, _Account(account.name, account.uid), pod, secret),
        )
        header = _Header(_ALGORITHM, self._key_id)
        signed = f"{_encode(msgspec.json.encode(header))}.{_encode(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_NUMBER_BYTES, "big") + s.to_bytes(_NUMBER_BYTES, "big")
        return f"{signed}.{_encode(signature)}", datetime.fromtimestamp(claims.exp, self._now().tzinfo)

    def account_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Caller | None:
        """Whom a token for one of these audiences, this server unless others are named, speaks for, or None."""
        claims = self._claims(token)
        now = self._now().timestamp()
        if claims is None or claims.iss != ISSUER or not claims.nbf <= now < claims.exp:
            return None
        if not set(claims.aud) & set(audiences):
            return None
        bound = claims.kubernetes
        pod, secret = (None if each is None else BoundTo(each.name, each.uid) for each in (bound.pod, bound.secret))
        account = AccountId(bound.namespace, bound.serviceaccount.name, bound.serviceaccount.uid, pod, secret)
        if claims.sub != account.user or not self._exists(account):
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", AUTHENTICATED)
        extra = {CREDENTIAL_EXTRA: (f"JTI={claims.jti}",)}
        if pod is not None:
            extra |= {f"{_POD_EXTRA}name": (pod.name,), f"{_POD_EXTRA}uid": (pod.uid,)}
        return Caller(account.user, groups, account.uid, extra)

    def _claims(self, token: str) -> _Claims | None:
        """What a token says, once its signature is found to be ours."""
        parts = token.split(".")
        if len(parts) != 3 or len(token) > _LONGEST_TOKEN:
            return None
        try:
            header = msgspec.json.decode(_decode(parts[0]), type=_Header)
            signature = _decode(parts[2])
            # The algorithm is ours to say, never the token's.
            if header.alg != _ALGORITHM or header.kid != self._key_id or len(signature) != 2 * _NUMBER_BYTES:
                return None
            r, s = (int.from_bytes(half, "big") for half in (signature[:_NUMBER_BYTES], signature[_NUMBER_BYTES:]))
            signed = f"{parts[0]}.{parts[1]}".encode()
            self._key.public_key().verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
            return msgspec.json.decode(_decode(parts[1]), type=_Claims)
        except (ValueError, InvalidSignature, msgspec.DecodeError):
            # No base64, no JSON, not of these fields, or signed by somebody else.
            return None


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The box's key for tokens; made when it is missing."""
    if path.exists():
        try:
            return load_key(path)
        except BadKeyFile as error:
            put_aside(path, f"{error}; the tokens of service accounts that were given out count no more")
    if not path.exists():
        made = ec.generate_private_key(ec.SECP256R1())
        pem = made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_durably(path, pem)
    return load_key(path)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise ValueError("not base64") from error
