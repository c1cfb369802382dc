"""That somebody may copy claims of another namespace into one DataVolume: a token on the DataVolume says it.

Signed by the api role when the DataVolume is made, as it alone learns then who makes it; believed by the controller,
which copies. Pure. A grant is for a namespace, as rights are: a DataSource may point at another claim tomorrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.signed_tokens import BadToken, derive_key, read, sign

CLONE_TOKEN: Final = f"{CDI_GROUP}/storage.clone.token"
# Ours, on a DataVolume of a VM: the service account by whose rights the controller makes it.
CLONE_ACCOUNT: Final = "kvedge.io/clone-account"
# The field of a refusal for want of the right, by which the controller tells it from others.
CLONE_FIELD: Final = "spec.source.pvc.namespace"
# Between the signature and the time that the server writes onto the object lie moments, and two hosts' clocks.
_NEAR: Final = timedelta(minutes=5)
_ISSUER: Final = "cdi-apiserver"
_OPERATION: Final = "Clone"


class CloneGrant(msgspec.Struct, frozen=True):
    """The DataVolume that may be filled, and the namespaces whose claims may be copied into it."""

    namespace: str
    name: str
    sources: tuple[str, ...]


class _Payload(msgspec.Struct):
    iss: str
    iat: int
    operation: str
    namespace: str
    name: str
    sources: list[str]


def grant_key(secret: bytes) -> bytes:
    """The key of grants, made of something secret that api roles and controller share."""
    return derive_key(secret, b"kvedge clone tokens")


def sign_grant(key: bytes, grant: CloneGrant, now: datetime) -> str:
    """The token of a grant."""
    payload = _Payload(
        _ISSUER, int(now.timestamp()), _OPERATION, grant.namespace, grant.name, sorted(set(grant.sources))
    )
    return sign(key, payload)


def read_grant(keys: Sequence[bytes], token: str, made_at: datetime) -> CloneGrant:
    """What a token grants.

    Args:
        keys: those that may have signed it.
        token: as it stands on the DataVolume.
        made_at: when that was made: a token that is older or newer was taken from another one.

    Raises:
        BadToken: it is none, of another key, for something else, or of another time.
    """
    payload = read(keys, token, _Payload)
    if (payload.iss, payload.operation) != (_ISSUER, _OPERATION):
        raise BadToken("it is for something else than a clone")
    if abs(made_at.timestamp() - payload.iat) > _NEAR.total_seconds():
        raise BadToken("it was signed for an earlier DataVolume of this name")
    return CloneGrant(payload.namespace, payload.name, tuple(payload.sources))
