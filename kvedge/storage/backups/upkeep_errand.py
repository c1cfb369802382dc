"""Errands in a repository besides backups: a list of it, old backups that go, and a part of it that is read back.

Called by the worker. What goes is decided from restic's list, one VM at a time, and named to restic by the numbers of
its files; no rule reaches restic, as a rule may mean more than it was meant for.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from kvedge.resources.types.protection.backup_job import BackupCatalog, BackupJob, BackupOutcome, PruneTarget
from kvedge.storage.backups.keep_rules import PrunePlan, plan_pruning, plan_removal
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.backups.stored_backups import HOST_PREFIX, OURS, StoredBackup, find_backups, list_catalog

log = logging.getLogger(__name__)

# A termination message has 4096 bytes; the log has all of them.
_MOST_TOLD: Final = 40


def read_catalog(client: ResticClient) -> BackupCatalog:
    """All that kvedge has kept there, also from other boxes and namespaces.

    Raises:
        BackupFailure: when the repository cannot be read.
    """
    return list_catalog(find_backups(client.list([OURS])))


def prune_backups(job: BackupJob, client: ResticClient, now: datetime) -> BackupOutcome:
    """Let old backups go, VM after VM, and then free their room.

    Raises:
        BackupFailure: what has gone until then is gone; nothing else is touched.
    """
    client.unlock_stale()
    removed: list[str] = []
    kept = abandoned = 0
    reasons: list[str] = []
    known: set[str] = set()
    for target in job.targets:
        backups = _backups_of(job.namespace, target, client)
        known |= {each.id for each in backups}
        if job.backup_ids:
            plan, why = plan_removal(backups, job.backup_ids, target.protected)
            reasons += why
        else:
            plan = plan_pruning(backups, job.keep, target.protected, now)
        _tell(target, plan, is_tried=job.dry_run)
        if not job.dry_run:
            _forget(plan, client)
        removed += [each.id for each in (*plan.gone, *plan.abandoned)]
        abandoned += len(plan.abandoned)
        kept += plan.kept
    reasons += [f"backup {id_} is none of these VMs'" for id_ in job.backup_ids if id_ not in known]
    if reasons and not removed:
        raise BackupFailure("; ".join(reasons[:5]), fatal=True)
    if not job.dry_run:
        # Also what an earlier errand has forgotten before it was killed.
        client.free_room()
    return BackupOutcome(
        message="; ".join([_describe(len(removed), abandoned, is_tried=job.dry_run), *reasons[:5]]),
        removed=len(removed),
        kept=kept,
        removed_ids=removed[:_MOST_TOLD],
    )


def verify_part(job: BackupJob, client: ResticClient) -> BackupOutcome:
    """Check the repository's structure, and read one part of what is kept back.

    Raises:
        BackupFailure: when something is damaged, or the place does not answer.
    """
    client.unlock_stale()
    client.check(job.part, job.parts)
    what = "all of the repository" if job.parts == 1 else f"part {job.part} of {job.parts} of the repository"
    return BackupOutcome(message=f"{what} was read back and is whole")


def _backups_of(namespace: str, target: PruneTarget, client: ResticClient) -> list[StoredBackup]:
    """Those of exactly this VM, asked of restic by all tags and looked at once more."""
    if not target.uid or not target.vm:
        raise BackupFailure("a VM without a UID is none: nothing is removed", fatal=True)
    files = client.list([OURS, f"vm={target.vm}", f"uid={target.uid}"], HOST_PREFIX + namespace)
    found = find_backups(files)
    return [each for each in found if (each.namespace, each.vm, each.uid) == (namespace, target.vm, target.uid)]


def _forget(plan: PrunePlan, client: ResticClient) -> None:
    """Records first: a backup of which a part has gone must not look complete."""
    records, disks = plan.numbers()
    client.forget(records)
    client.forget(disks)


def _tell(target: PruneTarget, plan: PrunePlan, *, is_tried: bool) -> None:
    for word, backups in (("old", plan.gone), ("abandoned", plan.abandoned)):
        for each in backups:
            facts = {"vm": target.vm, "id": each.id, "time": str(each.time), "only tried": is_tried}
            log.info("%s backup goes: %s", word, facts)


def _describe(removed: int, abandoned: int, *, is_tried: bool) -> str:
    verb = "would be removed" if is_tried else "removed"
    text = f"{removed - abandoned} backups {verb}"
    return f"{text}, and {abandoned} abandoned tries" if abandoned else text
