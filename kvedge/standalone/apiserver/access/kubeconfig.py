"""Kubeconfig files with everything in them: the server's authority, the client's certificate and key.

Written for the administrator and for each role. Touches only the file it is given.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

from kvedge.kube.kubeconfigs import kubeconfig_writer
from kvedge.kube.kubeconfigs.kubeconfig_writer import MODE, kubeconfig_text
from kvedge.kube.kubeconfigs.own_kubeconfig import (
    NotOursError,
    OwnKubeconfig,
    own_kubeconfig_manifest,
    read_own_kubeconfig,
    with_ca,
)
from kvedge.runtime.damaged_files import put_aside
from kvedge.standalone.apiserver.access.pki import Authority, KeyPair, Subject, is_fresh, subject_of

log = logging.getLogger(__name__)


def write_kubeconfig(path: Path, server: str, server_authority: bytes, clients: Authority, subject: Subject) -> None:
    """Write a kubeconfig for this subject, readable by its owner alone; a kubeconfig that is still good keeps its
    certificate.
    """
    pair = _read_kept_pair(path, clients, subject) or clients.issue_client(subject)
    cluster = with_ca({"server": server}, server_authority)
    document = own_kubeconfig_manifest(OwnKubeconfig(subject.user, pair.certificate, pair.key, cluster))
    # A client that follows the file would take each new one for new credentials.
    if not _is_there(path, kubeconfig_text(document)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            put_aside(path, "a directory stands in its place")
        kubeconfig_writer.write_kubeconfig(path, document)


def _is_there(path: Path, text: bytes) -> bool:
    try:
        return path.read_bytes() == text and path.stat().st_mode & 0o777 == MODE
    except OSError:
        return False


def _read_kept_pair(path: Path, clients: Authority, subject: Subject) -> KeyPair | None:
    """The certificate that the file has, if it is ours, for this subject, and good for a while; its key, too."""
    try:
        found = read_own_kubeconfig(path.read_bytes())
        if not found.key:
            # A file that was cut off within its last lines is whole YAML all the same.
            raise NotOursError("its key is missing")
        pair = KeyPair(found.certificate, found.key)
        good = (
            clients.has_issued(pair.certificate)
            and subject_of(pair.certificate) == subject
            and is_fresh(pair.certificate, datetime.now(UTC))
        )
    except FileNotFoundError:
        return None
    except (OSError, NotOursError, ValueError) as error:
        log.warning("%s is damaged or not of kvedge, and is written anew: %s", path, error)
        return None
    return pair if good else None
