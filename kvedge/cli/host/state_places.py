"""Opens the repository of backups that a verb of `kvedge state` names: by the API, or on a new box by place and key.

Called by the verbs of state. The keys lie in a directory for restic's user alone until the verb has ended.
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kvedge.cli.exits import Exit, Refused
from kvedge.client.session import Session
from kvedge.resources.names import LAUNCHER_UID
from kvedge.resources.types.core import Secret
from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.resources.types.protection.backups import BackupRun
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.storage.backups.restic_client import BackupFailure, ResticClient


@contextmanager
def named_repository(session: Session, name: str) -> Iterator[tuple[ResticClient, bool]]:
    """The BackupRepository of that name, and whether backups have gone there before.

    Raises:
        KubeError: when there is none, or it cannot be read.
        Refused: when its claim does not lie on this box.
    """
    from kvedge.client.backups import find_repository

    spec = find_repository(session, name).spec
    secret = session.client.get(Secret, session.namespace, spec.secret_name)
    keys = {key: b64decode(value).decode() for key, value in secret.data.items()}
    runs = session.client.list(BackupRun, session.namespace)
    is_known = any(run.spec.repository_name == name and run.status.phase == "Succeeded" for run in runs)
    with _open_repository(spec.url or _directory_of(session, spec.claim_name), keys) as client:
        yield client, is_known


@contextmanager
def described_repository(place: str, password_file: Path, keys: Mapping[str, str]) -> Iterator[ResticClient]:
    """A repository by its place: a directory that was given to `add-repository`, or a URL."""
    try:
        password = password_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{password_file} cannot be read: {error}", Exit.USAGE) from error
    where = f"{place.rstrip('/')}/kvedge" if place.startswith("/") else place
    with _open_repository(where, {**keys, PASSWORD_KEY: password}) as client:
        yield client


@contextmanager
def _open_repository(repository: str, keys: Mapping[str, str]) -> Iterator[ResticClient]:
    # In a directory the workers of VMs' backups go on with the same files: they are all of their user.
    user = LAUNCHER_UID if repository.startswith("/") and os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="kvedge-keys-") as folder:
        for name, text in keys.items():
            path = Path(folder) / name
            path.write_text(text)
            path.chmod(0o600)
        if user is not None:
            for path in (Path(folder), *Path(folder).iterdir()):
                os.chown(path, user, user)
        try:
            yield ResticClient(repository, Path(folder), user=user)
        except BackupFailure as error:
            raise Refused(error.message, Exit.HOST) from error


def _directory_of(session: Session, claim: str) -> str:
    """Where the repository of a claim lies on this box."""
    found = session.client.get(PersistentVolumeClaim, session.namespace, claim)
    volume = session.client.get(PersistentVolume, "", found.spec.volume_name or "-")
    source = volume.spec.host_path or volume.spec.local
    if source is None:
        raise Refused(
            f"claim {claim} does not lie in a directory of this host: name a repository with a URL", Exit.USAGE
        )
    return f"{source.path}/kvedge"
