"""Which backups of one VM stay and which go.

Called by the errand that prunes. Pure. The numbers mean what restic's `--keep-…` mean. restic itself is never given a
rule: it is told the numbers of files that were decided here, one VM at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from kvedge.resources.types.protection.backup_tasks import KeepRules
from kvedge.storage.backups.stored_backups import StoredBackup, moment_of

# A backup without a record may be under way; its worker has ended after so long, or is told of.
ABANDONED: Final = timedelta(days=1)


class PrunePlan(Struct, frozen=True):
    """What goes, and how many complete ones stay; `abandoned` are tries that never became a backup."""

    gone: tuple[StoredBackup, ...] = ()
    abandoned: tuple[StoredBackup, ...] = ()
    kept: int = 0

    def numbers(self) -> tuple[list[str], list[str]]:
        """restic's numbers of what goes: records, and then disks, so that a backup that goes half is none at once."""
        both = (*self.gone, *self.abandoned)
        return [f.number for b in both for f in b.records], [f.number for b in both for f in b.disks]


def plan_pruning(
    backups: Sequence[StoredBackup], keep: KeepRules, protected: Collection[str], now: datetime
) -> PrunePlan:
    """What goes by rules, of the backups of one VM: never the newest complete one, nor a protected one."""
    _are_of_one_vm(backups)
    complete = [each for each in backups if each.is_complete]
    stay = {each.id for each in complete} if keep.is_empty else _kept_by_rules(complete, keep)
    stay |= {each.id for each in _newest(complete)} | set(protected)
    gone = tuple(each for each in complete if each.id not in stay)
    return PrunePlan(gone, _find_abandoned(backups, protected, now), len(complete) - len(gone))


def plan_removal(
    backups: Sequence[StoredBackup], ids: Collection[str], protected: Collection[str]
) -> tuple[PrunePlan, list[str]]:
    """What goes of exactly these backups of one VM, and why others of them do not."""
    _are_of_one_vm(backups)
    complete = [each for each in backups if each.is_complete]
    last = {each.id for each in _newest(complete)}
    reasons = [f"backup {id_} is the last complete one of its VM" for id_ in sorted(last & set(ids))]
    reasons += [f"backup {id_} is in use" for id_ in sorted((set(protected) & set(ids)) - last)]
    chosen = [each for each in backups if each.id in ids and each.id not in last and each.id not in protected]
    gone = tuple(each for each in chosen if each.is_complete)
    abandoned = tuple(each for each in chosen if not each.is_complete)
    return PrunePlan(gone, abandoned, len(complete) - len(gone)), reasons


def _kept_by_rules(complete: Sequence[StoredBackup], keep: KeepRules) -> set[str]:
    """The newest of each of the last so many hours, days, weeks and months that have one."""
    stay: set[str] = set()
    newest_first = sorted(complete, key=lambda each: (each.time, each.id), reverse=True)
    for count, bucket in _buckets(keep):
        left, last = count, ""
        for number, backup in enumerate(newest_first):
            if left <= 0:
                break
            name = bucket(backup.time, number)
            # Where a rule names more than there are, the oldest stays too: its time is over only with the count.
            if name != last or number == len(newest_first) - 1:
                stay.add(backup.id)
                last, left = name, left - 1
    return stay


def _buckets(keep: KeepRules) -> list[tuple[int, Callable[[datetime, int], str]]]:
    return [
        (keep.last or 0, lambda time, number: str(number)),
        (keep.hourly or 0, lambda time, number: time.strftime("%Y-%m-%d %H")),
        (keep.daily or 0, lambda time, number: time.strftime("%Y-%m-%d")),
        (keep.weekly or 0, lambda time, number: time.strftime("%G-%V")),
        (keep.monthly or 0, lambda time, number: time.strftime("%Y-%m")),
    ]


def _newest(complete: Sequence[StoredBackup]) -> list[StoredBackup]:
    return [max(complete, key=lambda each: (each.time, each.id))] if complete else []


def _find_abandoned(
    backups: Sequence[StoredBackup], protected: Collection[str], now: datetime
) -> tuple[StoredBackup, ...]:
    return tuple(
        each
        for each in backups
        if not each.is_complete
        and each.id not in protected
        and all(now - moment_of(file) > ABANDONED for file in each.disks)
    )


def _are_of_one_vm(backups: Sequence[StoredBackup]) -> None:
    if len({(each.namespace, each.vm, each.uid) for each in backups}) > 1:
        raise ValueError("backups of several VMs are never judged together")
