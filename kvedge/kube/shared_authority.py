"""Authorities that roles share: each made once, and kept in a Secret of its own.

`kvedge-ca` signs the certificates between roles. A reader of it can speak as any role, so that the api role alone may
read it. `kvedge-upload-ca` is behind uploads alone: the controller issues the certificates of workers with it. Called
by the api role, which makes both, and by the controller. Reads and writes these two Secrets.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Final

import msgspec

from kvedge.kube.errors import AlreadyExists, Conflict, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.manifests.role_rights import AUTHORITY_SECRET
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import Namespace, Secret
from kvedge.runtime.clock import parse_rfc3339, rfc3339
from kvedge.runtime.tls.authority_plan import Authorities, plan_succession, split_certificates
from kvedge.runtime.tls.certificates import CertificateAuthority, CertificateError

# The signing authority has the keys of every TLS Secret, which earlier releases read, too.
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_SUCCESSOR: Final = "successor.crt"
_SUCCESSOR_KEY: Final = "successor.key"
_PREVIOUS: Final = "previous.crt"
SIGNS_FROM: Final = "kvedge.io/successor-signs-from"


def ensure_shared_authority(client: KubeClient, now: datetime, name: str = AUTHORITY_SECRET) -> Authorities:
    """The authority in the Secret of that name, made if there is none, and succeeded by a new one in time.

    Raises:
        KubeError: when the API server refuses or does not answer.
        CertificateError: when the Secret holds something else.
    """
    try:
        secret = client.get(Secret, SYSTEM_NAMESPACE, name)
    except NotFound:
        return _first_authority(client, now, name)
    present = _authorities(secret)
    planned = plan_succession(present, now)
    if planned is None:
        return present
    try:
        return _authorities(client.replace(_fill(secret, planned)))
    except Conflict:
        # Another api role was faster.
        return existing_authority(client, name)


def existing_authority(client: KubeClient, name: str = AUTHORITY_SECRET) -> Authorities:
    """The authority, for a role that may not make it.

    Raises:
        NotFound: when nobody has made it yet.
        KubeError: when the API server refuses or does not answer.
        CertificateError: when the Secret holds something else.
    """
    return _authorities(client.get(Secret, SYSTEM_NAMESPACE, name))


def _first_authority(client: KubeClient, now: datetime, name: str) -> Authorities:
    made = Authorities(CertificateAuthority.create(name, now))
    _ensure_namespace(client)
    secret = Secret(metadata=ObjectMeta(name=name, namespace=SYSTEM_NAMESPACE), type="kubernetes.io/tls")
    try:
        return _authorities(client.create(_fill(secret, made)))
    except AlreadyExists:
        # Another role was faster.
        return existing_authority(client, name)


def _ensure_namespace(client: KubeClient) -> None:
    try:
        client.get(Namespace, "", SYSTEM_NAMESPACE)
    except NotFound:
        try:
            client.create(Namespace(metadata=ObjectMeta(name=SYSTEM_NAMESPACE)))
        except AlreadyExists:
            return


def _fill(secret: Secret, authorities: Authorities) -> Secret:
    """The same Secret with these in it."""
    parts = {
        _CERTIFICATE: authorities.signing.certificate_pem,
        _KEY: authorities.signing.key_pem,
        _PREVIOUS: b"".join(authorities.previous),
        _SUCCESSOR: authorities.successor.certificate_pem if authorities.successor is not None else b"",
        _SUCCESSOR_KEY: authorities.successor.key_pem if authorities.successor is not None else b"",
    }
    annotations = {key: value for key, value in secret.metadata.annotations.items() if key != SIGNS_FROM}
    if authorities.signs_from is not None:
        annotations[SIGNS_FROM] = rfc3339(authorities.signs_from)
    return msgspec.structs.replace(
        secret,
        metadata=msgspec.structs.replace(secret.metadata, annotations=annotations),
        data={key: base64.b64encode(value).decode("ascii") for key, value in parts.items() if value},
    )


def _authorities(secret: Secret) -> Authorities:
    where = f"Secret {SYSTEM_NAMESPACE}/{secret.metadata.name}"
    try:
        parts = {key: base64.b64decode(value, validate=True) for key, value in secret.data.items()}
        signing = CertificateAuthority(parts[_CERTIFICATE], parts[_KEY])
        successor = None
        if _SUCCESSOR in parts:
            successor = CertificateAuthority(parts[_SUCCESSOR], parts[_SUCCESSOR_KEY])
        previous = split_certificates(parts.get(_PREVIOUS, b""))
    except (KeyError, ValueError) as error:
        raise CertificateError(
            f"{where}: {_CERTIFICATE} or {_KEY} is missing or not base64; delete it to make a new one"
        ) from error
    except CertificateError as error:
        raise CertificateError(f"{where}: {error}; delete it to make a new one") from error
    return Authorities(signing, successor, _signs_from(secret), previous)


def _signs_from(secret: Secret) -> datetime | None:
    """None also for a time that cannot be read: then the successor signs at once."""
    try:
        moment = parse_rfc3339(secret.metadata.annotations[SIGNS_FROM])
    except (KeyError, ValueError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
