"""Whose old backups a task may let go, and which of them are in use.

Called by the loop of tasks. Pure but for the look into a cache that it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvedge.controller.backups.upkeep.rounds import sequence_of
from kvedge.resources.types.protection.backup_job import PruneTarget
from kvedge.resources.types.protection.backup_schedules import SCHEDULE_UID
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.vm import VirtualMachine


def find_targets(
    task: BackupTask,
    find_vm: Callable[[str, str], VirtualMachine | None],
    runs: Sequence[BackupRun],
    restores: Sequence[BackupRestore],
) -> tuple[list[PruneTarget], list[str]]:
    """A target for each VM that is there, and the names of the others.

    `runs` are those of the namespace. `restores` are all that there are: another namespace may work with the same
    store by a repository of its own, and a backup's ID is that of one backup everywhere.
    """
    used = {
        id_ for each in restores if not each.is_final for id_ in (each.spec.backup_id, each.status.backup_id) if id_
    }
    targets, absent = [], []
    for name in dict.fromkeys(task.spec.vm_names):
        vm = find_vm(task.metadata.namespace, name)
        if vm is None or not vm.metadata.uid:
            absent.append(name)
            continue
        own = [each for each in runs if each.spec.vm_name == name]
        # What has no record yet is no abandoned try, and by the latest one its clock does not decide.
        held = {each.metadata.uid for each in own if not each.is_final} | _latest(own)
        targets.append(PruneTarget(vm=name, uid=vm.metadata.uid, protected=sorted(used | held)))
    return targets, absent


def _latest(runs: Sequence[BackupRun]) -> set[str]:
    """The latest complete one of each schedule in each repository: a clock that went back makes it look old.

    Of those by hand the repository's own times say which is the newest: they have no number.
    """
    found: dict[tuple[str, str], BackupRun] = {}
    for run in sorted(runs, key=lambda each: sequence_of(each.metadata)):
        uid = run.metadata.labels.get(SCHEDULE_UID)
        if uid and run.status.phase == "Succeeded" and run.status.backup_id:
            found[run.spec.repository_name, uid] = run
    return {each.status.backup_id for each in found.values()}
