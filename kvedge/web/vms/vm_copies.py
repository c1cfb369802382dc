"""What becomes of a whole VM on its page: a clone of it, a backup, a VM of a backup, and its end.

Called by `page_calls` in threads of their own, with the user's own rights. Raises what the client raises.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kvedge.client.backups import back_up, bring_back, describe, list_backups
from kvedge.client.clones import clone_vm
from kvedge.client.errors import NotFoundError, RefusedError
from kvedge.client.session import Session, check_name
from kvedge.client.snapshots import find_snapshot
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import Preconditions
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.vm import VirtualMachine
from kvedge.web.texts.body_text import text_of
from kvedge.web.texts.shown_text import showable
from kvedge.web.vms.namespace_session import enter_namespace

_MOST: Final = 200
_LONGEST: Final = 1024


def clone(session: Session, namespace: str, vm: str, body: JsonObject) -> JsonObject:
    """Ask for the VM `target` to be made like this one, or like its snapshot `snapshot` where that is no empty text.

    Raises:
        FlagError: for a body that makes no sense.
        RefusedError: when the target is there already.
    """
    here = enter_namespace(session, namespace)
    target, snapshot = text_of(body, "target"), text_of(body, "snapshot")
    if snapshot:
        find_snapshot(here, check_name(vm), snapshot)
    made = clone_vm(here, vm, check_name(target), datetime.now(UTC), snapshot or None)
    return {"name": showable(made.metadata.name)}


def delete(session: Session, namespace: str, vm: str, uid: str) -> JsonObject:
    """Delete the VM that the page has shown, and none that has its name since.

    Raises:
        RefusedError: when it is another one.
        KubeError: with the server's words.
    """
    here = enter_namespace(session, namespace)
    found = here.client.get(VirtualMachine, here.namespace, check_name(vm))
    if found.metadata.uid != uid:
        raise RefusedError("the VM was made anew since: look at it again")
    here.client.delete(VirtualMachine, here.namespace, vm, preconditions=Preconditions(uid=uid))
    return {}


def read_backups(session: Session, namespace: str, vm: str) -> JsonObject:
    """The backups of a VM, the newest first, what becomes of them, and where more may go."""
    here = enter_namespace(session, namespace)
    try:
        repositories = here.client.list(BackupRepository, here.namespace)
    except NotFound:
        # A server that has no such kind.
        return {"repositories": [], "backups": [], "restores": [], "moves": False}
    runs = list_backups(here, check_name(vm), here.namespace)[::-1]
    restores = [each for each in here.client.list(BackupRestore, here.namespace) if each.spec.vm_name == vm]
    return {
        "repositories": sorted(showable(each.metadata.name) for each in repositories)[:_MOST],
        "backups": [_run(each) for each in runs[:_MOST]],
        "restores": [_restore(each) for each in restores if not each.is_final][:_MOST],
        "moves": any(not each.is_final for each in runs) or any(not each.is_final for each in restores),
    }


def ask_backup(session: Session, namespace: str, vm: str, repository: str) -> JsonObject:
    """Ask for a backup of the VM as it is now."""
    made = back_up(enter_namespace(session, namespace), check_name(vm), check_name(repository), datetime.now(UTC))
    return {"name": showable(made.metadata.name)}


def ask_return(session: Session, namespace: str, vm: str, body: JsonObject) -> JsonObject:
    """Ask for the backup `backup` of this VM to become the VM `target`, which is not there yet.

    Raises:
        FlagError: for a body that makes no sense.
        NotFoundError: when there is no such backup of the VM.
    """
    here = enter_namespace(session, namespace)
    name, target = check_name(text_of(body, "backup")), check_name(text_of(body, "target"))
    found = here.client.get(BackupRun, here.namespace, name)
    if found.spec.vm_name != vm or not found.status.backup_id:
        raise NotFoundError(f"{name} is no complete backup of {vm}")
    now = datetime.now(UTC)
    bring_back(here, vm, found.spec.repository_name, now, backupID=found.status.backup_id, targetName=target)
    return {}


def _run(found: BackupRun) -> JsonObject:
    status = found.status
    return {
        "name": showable(found.metadata.name),
        "repository": showable(found.spec.repository_name),
        "phase": showable(status.phase or "-"),
        "complete": status.phase == "Succeeded" and bool(status.backup_id),
        "taken": showable(status.completion_time or ""),
        "size": status.size,
        "added": status.added,
        "waits": showable(describe(found), _LONGEST),
    }


def _restore(found: BackupRestore) -> JsonObject:
    return {
        "target": showable(found.spec.target_name or found.spec.vm_name),
        "waits": showable(describe(found), _LONGEST),
    }
