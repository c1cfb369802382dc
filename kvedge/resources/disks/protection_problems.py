"""What is wrong with what keeps VMs: schedules that fail or are late, stores that are damaged, backups that failed.

Called by `kvedge status` and by what tells somebody. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.types.protection.backup_schedules import SCHEDULE, BackupSchedule
from kvedge.resources.types.protection.backups import BackupRepository, BackupRun
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule

# Asked of the API one by one: an older one does not have all of them.
PROBLEM_KINDS: Final[tuple[Any, ...]] = (VirtualMachineSnapshotSchedule, BackupSchedule, BackupRepository, BackupRun)
_WORDS: Final[dict[Any, tuple[str, str]]] = {
    VirtualMachineSnapshotSchedule: ("snapshot schedule", "Ready"),
    BackupSchedule: ("backup schedule", "Ready"),
    BackupRepository: ("backup repository", "Verified"),
}


class Problem(NamedTuple):
    """One object that has not done what it is for, and why."""

    kind: str
    what: str
    namespace: str
    name: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.what} {self.namespace}/{self.name}: {self.reason}: {self.message}"


def find_problems(items: Sequence[Any]) -> Iterator[Problem]:
    """The problems of objects of one of these kinds, all there are."""
    for item in items:
        what, wanted = _WORDS.get(type(item), ("", ""))
        found = condition(item.status.conditions, wanted) if wanted else None
        if found is not None and found.status == "False":
            yield _problem(type(item).KIND.kind, what, item.metadata, found)
    yield from _failed_runs([item for item in items if isinstance(item, BackupRun)])


def _failed_runs(runs: Sequence[BackupRun]) -> Iterator[Problem]:
    """Backups that somebody has asked for by hand and that failed, until one of the same VM has succeeded after it."""
    latest: dict[tuple[str, str, str], BackupRun] = {}
    for run in sorted(runs, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name)):
        if run.is_final:
            latest[run.metadata.namespace, run.spec.vm_name, run.spec.repository_name] = run
    for run in latest.values():
        # A schedule tells of its own.
        if run.status.phase == "Failed" and SCHEDULE not in run.metadata.labels:
            found = Condition(type="", status="", reason="BackupFailed", message=run.status.message)
            yield _problem(BackupRun.KIND.kind, "backup", run.metadata, found)


def _problem(kind: str, what: str, meta: ObjectMeta, found: Condition) -> Problem:
    return Problem(kind, what, meta.namespace, meta.name, found.reason, found.message)
