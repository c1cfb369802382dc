"""Errands in a repository of backups as their users ask for them: old ones go, a part is read back, a list is made.

Called by the verbs of `kvedge backup`. Reads and writes the API; functions that judge are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.client.backups import find_repository
from kvedge.client.errors import NotFoundError
from kvedge.client.session import Session, check_name
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.protection.backup_tasks import BackupTask, CatalogEntry
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRepository, BackupRun
from kvedge.resources.types.vm import VirtualMachine

CATALOG_HEADER: Final = ["NAMESPACE", "VM", "ID", "TIME", "DISKS", "COMPLETE"]


def ask_prune(
    session: Session,
    vms: Sequence[str],
    repository: str,
    now: datetime,
    *,
    keep: dict[str, int] | None = None,
    ids: Sequence[str] = (),
    dry_run: bool = False,
) -> BackupTask:
    """Ask for old backups of VMs to go, by rules or by their IDs.

    Raises:
        KubeError: when the server refuses, or there is no such VM or repository.
    """
    for vm in vms:
        session.client.get(VirtualMachine, session.namespace, check_name(vm))
    spec: JsonObject = {"action": "Prune", "vmNames": list(vms)}
    spec |= {"backupIDs": list(ids)} if ids else {"keep": keep or {}}
    if dry_run:
        spec["dryRun"] = True
    return _ask(session, repository, "prune", now, spec)


def ask_verification(session: Session, repository: str, now: datetime, *, full: bool, parts: int | None) -> BackupTask:
    """Ask for the next part of a repository to be read back, or all of it.

    Raises:
        KubeError: when the server refuses, or there is no such repository.
    """
    spec: JsonObject = {"action": "Verify"}
    if full:
        spec["full"] = True
    elif parts is not None:
        spec["parts"] = parts
    return _ask(session, repository, "verify", now, spec)


def ask_catalog(session: Session, repository: str, now: datetime) -> BackupTask:
    """Ask what is in a repository.

    Raises:
        KubeError: when the server refuses, or there is no such repository.
    """
    return _ask(session, repository, "list", now, {"action": "List"})


def ask_test(session: Session, vm: str, repository: str, now: datetime, spec: JsonObject) -> BackupTest:
    """Ask for a backup of a VM to be tried; `spec` has more of its fields.

    Raises:
        KubeError: when the server refuses, or there is no such repository.
    """
    find_repository(session, repository)
    metadata = {"name": f"{vm}-test-{now:%Y%m%d-%H%M%S}", "namespace": session.namespace}
    body = {"vmName": check_name(vm), "repositoryName": repository, **spec}
    return session.client.create(decode(BackupTest, {"metadata": metadata, "spec": body}))


def find_places(session: Session, name: str) -> list[str]:
    """The repository of that name, or those that a VM of that name has complete backups in.

    Raises:
        NotFoundError: when there is neither.
    """
    known = {each.metadata.name for each in session.client.list(BackupRepository, session.namespace)}
    if name in known:
        return [name]
    runs = session.client.list(BackupRun, session.namespace)
    found = {
        each.spec.repository_name
        for each in runs
        if each.spec.vm_name == name and each.status.phase == "Succeeded" and each.spec.repository_name in known
    }
    if not found:
        raise NotFoundError(f'"{name}" is neither a repository, nor a VM with a complete backup in one')
    return sorted(found)


def make_catalog_cells(entry: CatalogEntry) -> list[str]:
    """One row of the list."""
    size = "-" if entry.size is None else f"{entry.size / (1 << 20):,.0f} MiB"
    return [entry.namespace, entry.vm, entry.id, entry.time or "-", size, "yes" if entry.complete else "no"]


def _ask(session: Session, repository: str, word: str, now: datetime, spec: JsonObject) -> BackupTask:
    find_repository(session, repository)
    # Two may be asked for within a second.
    name = f"{repository}-{word}-{now:%Y%m%d-%H%M%S-%f}"
    metadata = {"name": name, "namespace": session.namespace}
    document = {"metadata": metadata, "spec": {"repositoryName": repository, **spec}}
    return session.client.create(decode(BackupTask, document))
