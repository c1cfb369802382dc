"""A line for each piece of work that takes a while, made of its object: what, about what, how far, and since when.

Called by the verb and the console. Pure. What has succeeded is told for as long as its object is there and says when
it ended; what has failed, until its object is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from kvedge.client.backups import describe
from kvedge.client.clones import describe_clone
from kvedge.client.migrations import describe_step
from kvedge.client.snapshots import describe_restore, describe_snapshot
from kvedge.client.vm_rows import age_text
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup
from kvedge.runtime.clock import parse_rfc3339

HEADER: Final = ["TASK", "NAME", "ABOUT", "STATE", "DONE", "AGE", "MESSAGE"]
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
_ENDING: Final = "is being ended"
_PERCENT: Final = re.compile(r"(\d{1,3})(?:\.\d+)?%")


class TaskRow(Struct, frozen=True):
    """`task` says what is done and `about` to whom; `percent` is None where nobody knows; times are RFC 3339."""

    task: str
    kind: str
    namespace: str
    name: str
    about: str
    state: str
    percent: int | None
    message: str
    begun: str
    ended: str
    age: str
    # Its object is deleted, and what it has made is being taken down.
    is_ending: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it is still under way."""
        return self.state == RUNNING

    def cells(self, *, with_namespace: bool) -> list[str]:
        """The cells below :data:`HEADER`."""
        done = "" if self.percent is None else f"{self.percent}%"
        cells = [self.task, self.name, self.about, self.state, done, self.age, self.message]
        return [cell or "-" for cell in ([self.namespace] if with_namespace else []) + cells]

    def document(self) -> JsonObject:
        """For scripts."""
        return {
            "task": self.task,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "about": self.about,
            "state": self.state,
            "percent": self.percent,
            "message": self.message,
            "begun": self.begun,
            "ended": self.ended or None,
            "ending": self.is_ending,
        }


class _Facts(Struct, frozen=True):
    """What an object says of itself. `message` is for what goes on, or went wrong."""

    task: str
    about: str
    state: str
    message: str = ""
    progress: str = ""
    ended: str = ""


def task_rows(found: Iterable[Any], now: datetime, ended_within: timedelta) -> list[TaskRow]:
    """What is under way, the oldest first; then what has ended, the newest first: failures, and the rest of late."""
    rows = [_row(item, now) for item in found]
    active = sorted((row for row in rows if row.is_active), key=lambda row: (row.begun, row.namespace, row.name))
    since = now - ended_within
    ended = [row for row in rows if not row.is_active and (row.state == FAILED or _is_later(row.ended, since))]
    return active + sorted(ended, key=lambda row: (row.ended or row.begun, row.name), reverse=True)


def _row(item: Any, now: datetime) -> TaskRow:
    facts = _FACTS[type(item)](item)
    meta, found = item.metadata, _PERCENT.fullmatch(facts.progress)
    created = meta.creation_timestamp or ""
    return TaskRow(
        task=facts.task,
        kind=type(item).KIND.kind,
        namespace=meta.namespace,
        name=meta.name,
        about=facts.about,
        state=facts.state,
        percent=min(100, int(found[1])) if found and facts.state == RUNNING else None,
        message=_ENDING if meta.deletion_timestamp else facts.message,
        begun=created,
        ended=facts.ended,
        age=age_text((now - parse_rfc3339(created)).total_seconds()) if created else "",
        is_ending=bool(meta.deletion_timestamp),
    )


def _is_later(moment: str, than: datetime) -> bool:
    try:
        return bool(moment) and parse_rfc3339(moment) >= than
    except ValueError:
        return False


def _state(*, is_final: bool, failed: bool) -> str:
    if not is_final:
        return RUNNING
    return FAILED if failed else SUCCEEDED


def _of_data_volume(item: DataVolume) -> _Facts:
    phase, source = item.status.phase, item.spec.source
    task = "import"
    if source is not None:
        task = next((word for word, part in _SOURCES.items() if getattr(source, part) is not None), task)
    running = next((each for each in item.status.conditions if each.type == "Running"), None)
    said = running.message if running is not None else ""
    state = _state(is_final=phase in ("Succeeded", "Failed"), failed=phase == "Failed")
    ready = next((each for each in item.status.conditions if each.type == "Ready" and each.status == "True"), None)
    ended = ready.last_transition_time or "" if ready is not None and state == SUCCEEDED else ""
    message = "" if state == SUCCEEDED else f"{phase}: {said}" if said else phase
    return _Facts(task, item.metadata.name, state, message, item.status.progress, ended)


# What a DataVolume does, by its source; an import by any other.
_SOURCES: Final[Mapping[str, str]] = {"upload": "upload", "copy": "pvc", "copy of a snapshot": "snapshot"}


def _of_migration(item: VirtualMachineInstanceMigration) -> _Facts:
    found = item.status.migration_state
    state = _state(is_final=item.is_final, failed=item.status.phase == "Failed")
    why = found.failure_reason if found is not None else ""
    message = "" if state == SUCCEEDED else why if state == FAILED and why else describe_step(item)
    return _Facts("migration", item.spec.vmi_name, state, message, "", (found.end_timestamp if found else "") or "")


def _of_snapshot(item: VirtualMachineSnapshot) -> _Facts:
    state = _state(is_final=item.is_final, failed=item.status.phase == "Failed")
    ended = _time_of(item.status.conditions, "Ready") if item.is_final else ""
    return _Facts("snapshot", item.spec.source.name, state, describe_snapshot(item), "", ended)


def _of_restore(item: VirtualMachineRestore) -> _Facts:
    state = _state(is_final=item.is_final, failed=item.has_failed)
    ended = item.status.restore_time or ""
    return _Facts("restore", item.spec.target.name, state, describe_restore(item), "", ended)


def _of_clone(item: VirtualMachineClone) -> _Facts:
    state = _state(is_final=item.is_final, failed=item.status.phase == "Failed")
    source, target = item.spec.source, item.spec.target
    to = item.status.target_name or (target.name if target is not None else "")
    about = f"{source.name if source is not None else ''} to {to}" if to else source.name if source is not None else ""
    ended = _time_of(item.status.conditions, "Ready") if item.is_final else ""
    return _Facts("clone", about, state, describe_clone(item), "", ended)


def _of_vm_backup(item: VirtualMachineBackup) -> _Facts:
    state = _state(is_final=item.is_final, failed=item.is_true("Failed"))
    word = {RUNNING: "Progressing", FAILED: "Failed", SUCCEEDED: "Complete"}[state]
    said = condition(item.status.conditions, word)
    message = said.message or said.reason if said is not None and state != SUCCEEDED else ""
    ended = _time_of(item.status.conditions, word) if item.is_final else ""
    return _Facts("backup", item.spec.source.name, state, message, "", ended)


def _of_backup(task: str, item: BackupRun | BackupRestore | BackupTask | BackupTest) -> _Facts:
    state = _state(is_final=item.is_final, failed=item.status.phase == "Failed")
    spec: Any = item.spec
    names = spec.vm_names if isinstance(item, BackupTask) else [spec.vm_name]
    about = ",".join(name for name in names if name) or spec.repository_name
    progress = "" if isinstance(item, (BackupTask, BackupTest)) else item.status.progress
    return _Facts(task, about, state, describe(item), progress, item.status.completion_time or "")


def _time_of(conditions: list[Condition], type_: str) -> str:
    found = condition(conditions, type_)
    return found.last_transition_time or "" if found is not None else ""


_FACTS: Final[Mapping[type, Callable[[Any], _Facts]]] = {
    DataVolume: _of_data_volume,
    VirtualMachineInstanceMigration: _of_migration,
    VirtualMachineSnapshot: _of_snapshot,
    VirtualMachineRestore: _of_restore,
    VirtualMachineClone: _of_clone,
    VirtualMachineBackup: _of_vm_backup,
    BackupRun: lambda item: _of_backup("backup", item),
    BackupRestore: lambda item: _of_backup("return from a backup", item),
    BackupTask: lambda item: _of_backup(f"backups: {item.spec.action}", item),
    BackupTest: lambda item: _of_backup("test of a backup", item),
}
# The kinds of which there are rows.
TASK_KINDS: Final[tuple[type, ...]] = tuple(_FACTS)
