"""Backups of VMs as their users see them: repositories made, VMs backed up, brought back, and how far each is.

Called by the verbs of `kvedge backup`. Reads and writes the API; the functions that judge are pure.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from kvedge.client.errors import NotFoundError, RefusedError, TimedOutError
from kvedge.client.session import Session, check_name
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.core import Secret
from kvedge.resources.types.protection.backup_job import PASSWORD_KEY
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.nearest_names import or_nearest

T = TypeVar("T", BackupRun, BackupRestore, BackupTask, BackupTest)

_WORDS: Final[dict[type, str]] = {BackupRun: "backup", BackupRestore: "restore", BackupTask: "task", BackupTest: "test"}
HEADER: Final = ["NAME", "VM", "REPOSITORY", "PHASE", "COMPLETED", "SIZE", "ADDED", "WAITS FOR OR FAILED BY"]
_FIRST_LOOK: Final = 0.1
_LONGEST_LOOK: Final = 1.0
# The capacity of a volume that is a directory is a name only: nobody measures it.
_DIRECTORY_SIZE: Final = "1Ti"


class Place(Struct, frozen=True):
    """Where a repository is: one of these; and the keys of its Secret beside the password."""

    url: str = ""
    claim: str = ""
    directory: str = ""
    keys: dict[str, str] = field(default_factory=dict)


def add_repository(session: Session, name: str, place: Place, password: str) -> BackupRepository:
    """Make a repository, its Secret, and for a directory of the host the volume and the claim.

    Raises:
        KubeError: when the server refuses; what was made before goes again.
    """
    namespace, client = session.namespace, session.client
    made: list[tuple[Any, str, str]] = []
    secret = f"{check_name(name)}-backup-key"
    claim = place.claim
    try:
        data = {PASSWORD_KEY: password, **place.keys}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        client.create(decode(Secret, {"metadata": {"name": secret, "namespace": namespace}, "data": encoded}))
        made.append((Secret, namespace, secret))
        if place.directory:
            claim = f"{name}-backups"
            volume = f"{namespace}-{claim}"
            client.create(decode(PersistentVolume, _volume_document(volume, namespace, claim, place.directory)))
            made.append((PersistentVolume, "", volume))
            client.create(decode(PersistentVolumeClaim, _claim_document(claim, namespace, volume)))
            made.append((PersistentVolumeClaim, namespace, claim))
        spec = {"secretName": secret, **({"url": place.url} if place.url else {"claimName": claim})}
        document = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        return client.create(decode(BackupRepository, document))
    except KubeError:
        for kind, where, made_name in reversed(made):
            with contextlib.suppress(KubeError):
                client.delete(kind, where, made_name)
        raise


def new_password() -> str:
    """One that nobody guesses: 190 bits, in letters that can be written down."""
    return secrets.token_urlsafe(24)


def back_up(
    session: Session, vm: str, repository: str, now: datetime, *, snapshot: str = "", deadline: str | None = None
) -> BackupRun:
    """Ask for a backup of a VM that is there.

    Raises:
        KubeError: when the server refuses, or there is no such VM or repository.
    """
    session.client.get(VirtualMachine, session.namespace, check_name(vm))
    find_repository(session, repository)
    spec: JsonObject = {"vmName": vm, "repositoryName": repository}
    if snapshot:
        spec["snapshotName"] = snapshot
    if deadline is not None:
        spec["deadline"] = deadline
    metadata = {"name": f"{vm}-{now:%Y%m%d-%H%M%S}", "namespace": session.namespace}
    return session.client.create(decode(BackupRun, {"metadata": metadata, "spec": spec}))


def bring_back(
    session: Session,
    vm: str,
    repository: str,
    now: datetime,
    disks: Sequence[tuple[str, str]] = (),
    **more: str | bool | None,
) -> BackupRestore:
    """Ask for a backup to become a VM, or for some of its disks with the names of their claims to become these.

    `more` are fields of the restore's spec.

    Raises:
        KubeError: when the server refuses, or there is no such repository.
    """
    find_repository(session, repository)
    given: JsonObject = {name: value for name, value in more.items() if value}
    if disks:
        given["volumes"] = [{"volumeName": volume, "claimName": claim} for volume, claim in disks]
    target = given.get("targetName") or vm
    metadata = {"name": f"{target}-{now:%Y%m%d-%H%M%S}", "namespace": session.namespace}
    spec = {"vmName": check_name(vm), "repositoryName": repository, **given}
    return session.client.create(decode(BackupRestore, {"metadata": metadata, "spec": spec}))


def find_repository(session: Session, name: str) -> BackupRepository:
    """The repository of that name.

    Raises:
        NotFoundError: when there is none.
    """
    known = {each.metadata.name: each for each in session.client.list(BackupRepository, session.namespace)}
    if name not in known:
        remedy = "`kvedge backup add-repository` makes one"
        raise NotFoundError(f'repository "{name}" not found.{or_nearest(name, sorted(known)) or f" {remedy}"}')
    return known[name]


def list_backups(session: Session, vm: str | None, namespace: str | None) -> list[BackupRun]:
    """All backups of a namespace, or those of one VM, the oldest first."""
    chosen = [each for each in session.client.list(BackupRun, namespace) if vm is None or each.spec.vm_name == vm]
    return sorted(chosen, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))


def make_cells(run: BackupRun, *, with_namespace: bool) -> list[str]:
    """One row of the list."""
    status = run.status
    cells = [
        run.metadata.name,
        run.spec.vm_name,
        run.spec.repository_name,
        status.phase or "-",
        status.completion_time or "-",
        _count(status.size),
        _count(status.added),
        describe(run) or "-",
    ]
    return [run.metadata.namespace, *cells] if with_namespace else cells


def describe(item: BackupRun | BackupRestore | BackupTask | BackupTest) -> str:
    """What it waits for, how far it is, or why it failed; empty when it has succeeded."""
    status = item.status
    if status.phase == "Succeeded":
        return ""
    progress = "" if isinstance(item, (BackupTask, BackupTest)) else item.status.progress
    return status.message or progress or ("not seen by the controller yet" if not status.phase else status.phase)


class BackupWait:
    """Waits until a backup is complete, or has become a VM, or a task in a repository is done."""

    def __init__(self, session: Session, timeout: float, progress: Callable[[], Progress]) -> None:
        self._session = session
        self._timeout = timeout
        self._progress = progress

    def wait(self, item: T) -> T:
        """Until it has succeeded, or its VM runs from its backup.

        Raises:
            RefusedError: when it failed; with the reason.
            TimedOutError: with what it waits for.
        """
        deadline, pause, name = time.monotonic() + self._timeout, _FIRST_LOOK, item.metadata.name
        word = _WORDS[type(item)]
        with self._progress() as progress:
            while True:
                # A server that restarts is waited for as well.
                with contextlib.suppress(Unavailable):
                    try:
                        item = self._session.client.get(type(item), self._session.namespace, name)
                    except NotFound as error:
                        raise RefusedError(f"{word} {name} is gone: somebody has deleted it") from error
                    if item.status.phase == "Succeeded" or (isinstance(item, BackupRestore) and item.runs):
                        return item
                    if item.is_final:
                        raise RefusedError(f"{word} {name} failed: {describe(item)}")
                progress.show(f"{name}: {describe(item)}")
                if time.monotonic() > deadline:
                    raise TimedOutError(
                        f"timed out after {self._timeout:g} s waiting for {word} {name}: {describe(item)}"
                    )
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(_LONGEST_LOOK, pause * 1.5)


def _count(size: int | None) -> str:
    return "-" if size is None else f"{size / (1 << 20):,.0f} MiB"


def _volume_document(name: str, namespace: str, claim: str, directory: str) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": _DIRECTORY_SIZE},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": directory, "type": "Directory"},
            "claimRef": {"namespace": namespace, "name": claim, "kind": "PersistentVolumeClaim", "apiVersion": "v1"},
        },
    }


def _claim_document(name: str, namespace: str, volume: str) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": _DIRECTORY_SIZE}},
            "storageClassName": "",
            "volumeName": volume,
        },
    }
