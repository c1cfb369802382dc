"""Opens the repository of backups that a verb of `kvedge state` names, by place and key: the API is not asked, whose
users may write other ones there.

Called by the verbs of state. The keys lie in a directory for restic's user alone until the verb has ended.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kvedge.cli.exits import Exit, Refused
from kvedge.resources.names import LAUNCHER_UID
from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure

_REMOTE: Final = ("s3:", "rest:", "sftp:")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# Of a key or a bundle of certificates.
_LONGEST_KEY: Final = 1 << 20


def require_place(place: str) -> None:
    """Raises Refused for what is neither a directory nor a URL, such as a BackupRepository's name."""
    if not place.startswith(("/", *_REMOTE)):
        raise Refused(
            f"--to: {place[:80]!r} is no place: name a directory by its whole path, or a URL (s3:, rest:, sftp:). A"
            " BackupRepository's name does not do: who may edit its namespace chooses its place and reads its key, and"
            " the state holds this box's authorities and all Secrets",
            Exit.USAGE,
        )


def read_own_file(path: Path) -> str:
    """A file of root's (or of who calls) that nobody else can read or exchange.

    Raises:
        Refused: when somebody else may, or it cannot be read.
    """
    try:
        with path.open() as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid not in {0, os.geteuid()} or facts.st_mode & _OTHERS:
                raise Refused(f"{path} must be root's alone: chown root {path}; chmod 600 {path}", Exit.USAGE)
            return file.read(_LONGEST_KEY)
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}", Exit.USAGE) from error


@contextmanager
def described_repository(place: str, password: str, keys: Mapping[str, str]) -> Iterator[ResticClient]:
    """A repository by its place, a directory or a URL, and by what opens it."""
    where = f"{place.rstrip('/')}/kvedge" if place.startswith("/") else place
    with _open_repository(where, {**keys, PASSWORD_KEY: password.strip()}) as client:
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
