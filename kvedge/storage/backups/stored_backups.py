"""What a repository has, made of restic's list: backups of VMs, each with its disks and, once complete, its record.

Called by the errands that list and prune. Pure. A file of somebody else, or one whose tags do not say clearly which
backup it belongs to, is nobody's here: it is neither shown nor touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from kvedge.resources.types.protection.backup_job import BackupCatalog
from kvedge.resources.types.protection.backup_tasks import CatalogEntry
from kvedge.runtime.clock import rfc3339
from kvedge.storage.backups.restic_client import KeptFile

# On all that kvedge keeps in a repository, which may have files of others.
OURS: Final = "kvedge"
RECORD: Final = "record"
HOST_PREFIX: Final = "kvedge-"
# An object in the API holds the list; its answer has to be below the size of one.
MOST_LISTED: Final = 1000
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class StoredBackup(Struct, frozen=True):
    """One backup of one VM: restic's files of its record and of its disks."""

    namespace: str
    vm: str
    uid: str
    id: str
    records: tuple[KeptFile, ...]
    disks: tuple[KeptFile, ...]

    @property
    def is_complete(self) -> bool:
        """Whether its record is there, which is written last."""
        return bool(self.records)

    @property
    def time(self) -> datetime:
        """When the record was written, or the newest disk where there is none."""
        return max((moment_of(each) for each in self.records or self.disks), default=_NEVER)

    @property
    def size(self) -> int | None:
        """Bytes of its disks; None where the record does not say."""
        if not self.records:
            return None
        words = _values(self.records[-1], "size=")
        return int(words[0]) if len(words) == 1 and words[0].isascii() and words[0].isdigit() else None


def find_backups(files: Iterable[KeptFile]) -> list[StoredBackup]:
    """All backups, the oldest first."""
    found: dict[tuple[str, str, str, str], tuple[list[KeptFile], list[KeptFile]]] = {}
    for file in files:
        key = _key(file)
        if key is not None:
            records, disks = found.setdefault(key, ([], []))
            (records if RECORD in file.tags else disks).append(file)
    made = [StoredBackup(*key, tuple(records), tuple(disks)) for key, (records, disks) in found.items()]
    return sorted(made, key=lambda each: (each.time, each.id))


def list_catalog(backups: Sequence[StoredBackup], most: int = MOST_LISTED) -> BackupCatalog:
    """The newest first, and how many older ones are left out."""
    entries = [
        CatalogEntry(
            namespace=each.namespace,
            vm=each.vm,
            vm_uid=each.uid,
            id=each.id,
            time=rfc3339(each.time),
            size=each.size,
            complete=each.is_complete,
        )
        for each in list(reversed(backups))[:most]
    ]
    return BackupCatalog(backups=entries, left_out=max(0, len(backups) - most))


def moment_of(file: KeptFile) -> datetime:
    """When restic has kept it; a time that cannot be read is taken for now, so that nothing is old by it."""
    text = file.time
    # restic tells nanoseconds, of which Python reads six digits.
    head, point, tail = text.partition(".")
    if point:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[: min(digits, 6)].ljust(6, '0')}{tail[digits:]}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _key(file: KeptFile) -> tuple[str, str, str, str] | None:
    """Namespace, VM, its UID and the backup's ID; None for what is not clearly one backup's."""
    vms, ids, uids = _values(file, "vm="), _values(file, "id="), _values(file, "uid=")
    volumes = len(_values(file, "volume=")) + (RECORD in file.tags)
    if OURS not in file.tags or not file.host.startswith(HOST_PREFIX):
        return None
    if len(vms) != 1 or len(ids) != 1 or len(uids) > 1 or volumes != 1:
        return None
    return file.host.removeprefix(HOST_PREFIX), vms[0], uids[0] if uids else "", ids[0]


def _values(file: KeptFile, prefix: str) -> list[str]:
    return [tag.removeprefix(prefix) for tag in file.tags if tag.startswith(prefix)]
