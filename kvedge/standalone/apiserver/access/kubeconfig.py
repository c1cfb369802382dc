"""Kubeconfig files with everything in them: the server's authority, the client's certificate and key.

Written for the administrator and for each role. Touches only the file it is given.
"""

from __future__ import annotations

import base64
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml

from kvedge.resources.codec import JsonObject
from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_durably
from kvedge.standalone.apiserver.access.pki import Authority, KeyPair, Subject, is_fresh, subject_of

log = logging.getLogger(__name__)

_MODE: Final = 0o600


def kubeconfig_manifest(server: str, authority_pem: bytes, user: str, pair: KeyPair) -> JsonObject:
    """A kubeconfig with one cluster, one user and one context."""
    cluster = {"server": server, "certificate-authority-data": _text(authority_pem)}
    credentials = {"client-certificate-data": _text(pair.certificate), "client-key-data": _text(pair.key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kvedge", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "kvedge", "context": {"cluster": "kvedge", "user": user}}],
        "current-context": "kvedge",
        "preferences": {},
    }


def write_kubeconfig(path: Path, server: str, server_authority: bytes, clients: Authority, subject: Subject) -> None:
    """Write a kubeconfig for this subject, readable by its owner alone; one that is still good keeps its
    certificate.
    """
    pair = _kept_pair(path, clients, subject) or clients.issue_client(subject)
    document = kubeconfig_manifest(server, server_authority, subject.user, pair)
    text = yaml.safe_dump(document, sort_keys=False).encode()
    # Whoever follows the file would take each new one for new credentials.
    if not _is_there(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            put_aside(path, "a directory stands in its place")
        write_durably(path, text, _MODE)


def _is_there(path: Path, text: bytes) -> bool:
    try:
        return path.read_bytes() == text and path.stat().st_mode & 0o777 == _MODE
    except OSError:
        return False


def _kept_pair(path: Path, clients: Authority, subject: Subject) -> KeyPair | None:
    """The certificate that the file has, if it is ours, for this subject, and good for a while."""
    try:
        user = yaml.safe_load(path.read_bytes())["users"][0]["user"]
        pair = KeyPair(base64.b64decode(user["client-certificate-data"]), base64.b64decode(user["client-key-data"]))
        good = (
            clients.issued(pair.certificate)
            and subject_of(pair.certificate) == subject
            and is_fresh(pair.certificate, datetime.now(UTC))
        )
    except FileNotFoundError:
        return None
    except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError, ValueError) as error:
        log.warning("%s is damaged or not of kvedge, and is written anew: %s", path, error)
        return None
    return pair if good else None


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
