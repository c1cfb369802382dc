"""A VM's disks, opened for reading: an export is made for it, waited for, and removed when all was read.

Called by `kvedge export`. Talks to the API server. A stopped VM is read as it is; a running one by a snapshot, which is
removed as well. What was made is removed also when the export fails; when the program is killed, the export ends by
itself, and the snapshot goes with it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

import kvedge
from kvedge.client.errors import ClientError, RefusedError
from kvedge.client.exports.export_calls import ExportCalls
from kvedge.client.exports.remote_disk import ExportAddress, RemoteDisk
from kvedge.client.random_names import random_letters
from kvedge.client.session import Session, check_name
from kvedge.client.snapshots import SnapshotWait, find_snapshot, is_running, take_snapshot
from kvedge.client.vm_files import exported_vm
from kvedge.client.vm_files.archive_manifest import ArchiveManifest, DiskEntry
from kvedge.client.vm_files.exported_vm import LastingVolume
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.snapshot_names import METHOD, VOLUME_SNAPSHOTS
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.vm import VirtualMachine

# Disks of terabytes on a slow line; an export that nobody removes ends then.
_TTL: Final = "72h"
# A label of the Service that is named after the export has 63 characters, and a prefix.
_LONGEST_VM: Final = 30


class ExportWish(Struct, frozen=True):
    """Which VM, and how: of a snapshot that is there, or of one that is made for it."""

    vm: str
    snapshot: str = ""
    with_secrets: bool = False
    wait_seconds: float = 600.0


class OpenExport(Struct, frozen=True):
    """What the archive says of itself, and its disks in the same order."""

    manifest: ArchiveManifest
    disks: list[RemoteDisk]


class _Source:
    """Of what the export is, and what it says of the VM."""

    def __init__(self, kind: str, group: str, name: str, vm: JsonObject) -> None:
        self.reference = {"apiGroup": group, "kind": kind, "name": name}
        self.vm = vm
        self.text = "a stopped VM" if kind == "VirtualMachine" else f"snapshot {name}"


class ExportOpening:
    """Opens one export."""

    def __init__(
        self,
        session: Session,
        wish: ExportWish,
        tell: Callable[[str], None],
        progress: Callable[[], Progress],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`tell` gets what happens and what is left out."""
        self._session = session
        self._wish = wish
        self._tell = tell
        self._progress = progress
        self._pause = pause
        self._own_snapshot = ""

    @contextmanager
    def open(self) -> Iterator[OpenExport]:
        """The disks, while it is entered.

        Raises:
            ClientError, KubeError: with what is in the way.
        """
        check_name(self._wish.vm)
        with contextlib.ExitStack() as stack:
            source = self._find_source(stack)
            lasting = exported_vm.find_lasting(source.vm)
            disks = self._open_disks(stack, source, lasting) if lasting else []
            try:
                yield OpenExport(self._describe(source, lasting, disks), disks)
            except ClientError as error:
                if source.reference["kind"] == "VirtualMachine" and is_running(self._session, self._wish.vm):
                    raise RefusedError(
                        f"VM {self._wish.vm} was started while its disks were read ({error.text}): stop it, or let "
                        "it run and export again, which takes a snapshot"
                    ) from error
                raise

    def _find_source(self, stack: contextlib.ExitStack) -> _Source:
        vm, namespace = self._wish.vm, self._session.namespace
        snapshot: VirtualMachineSnapshot | None = None
        if self._wish.snapshot:
            snapshot = find_snapshot(self._session, vm, self._wish.snapshot)
        else:
            document = self._read(VirtualMachine.KIND.path(namespace, vm))
            if not is_running(self._session, vm):
                return _Source("VirtualMachine", VirtualMachine.KIND.group, vm, document)
            name = f"{vm[:_LONGEST_VM].rstrip('.-')}-export-{random_letters()}"
            snapshot = take_snapshot(self._session, vm, name, copies=True)
            path = VirtualMachineSnapshot.KIND.path(namespace, name)
            stack.callback(self._remove, path)
            self._own_snapshot = path
            self._tell(f"VM {vm} runs: its disks are read from snapshot {name}, which is removed afterwards")
        SnapshotWait(self._session, self._wish.wait_seconds, self._progress).wait_until_ready(snapshot)
        return self._read_snapshot(snapshot.metadata.name)

    def _read_snapshot(self, name: str) -> _Source:
        client, namespace = self._session.client, self._session.namespace
        snapshot = client.get(VirtualMachineSnapshot, namespace, name)
        content_name = snapshot.status.virtual_machine_snapshot_content_name or ""
        content = client.get(VirtualMachineSnapshotContent, namespace, content_name)
        document = content.spec.source.virtual_machine
        if document is None:
            raise RefusedError(f"snapshot {name} holds no VM")
        if content.metadata.annotations.get(METHOD) == VOLUME_SNAPSHOTS:
            raise RefusedError(
                f"snapshot {name} is kept by a storage driver, which hands nothing out: export the VM as it is, or"
                " restore the snapshot to another VM and export that"
            )
        if snapshot.status.snapshot_volumes is not None and snapshot.status.snapshot_volumes.excluded_volumes:
            lasting = {volume.volume for volume in exported_vm.find_lasting(document)}
            missing = sorted(lasting & set(snapshot.status.snapshot_volumes.excluded_volumes))
            if missing:
                raise RefusedError(
                    f"snapshot {name} has no copy of {', '.join(missing)}: stop the VM, and export it as it is"
                )
        return _Source("VirtualMachineSnapshot", VirtualMachineSnapshot.KIND.group, name, document)

    def _open_disks(
        self, stack: contextlib.ExitStack, source: _Source, lasting: list[LastingVolume]
    ) -> list[RemoteDisk]:
        name = f"{self._wish.vm[:_LONGEST_VM].rstrip('.-')}-{random_letters()}"
        calls = ExportCalls(self._session, self._pause)
        stack.callback(calls.remove, name)
        made, token = calls.make(name, source.reference, name, _TTL)
        if self._own_snapshot:
            calls.hand_over(self._own_snapshot, made)
        ready = calls.wait(name, self._wish.wait_seconds, self._progress, f"VM {self._wish.vm}", _has_volumes)
        link = _link_of(ready["status"]["links"])
        return [self._open_disk(stack, link, volume, name, token) for volume in lasting]

    def _open_disk(
        self, stack: contextlib.ExitStack, link: JsonObject, volume: LastingVolume, export: str, token: str
    ) -> RemoteDisk:
        found = {str(each.get("name")): each for each in link.get("volumes") or ()}
        entry = found.get(volume.claim) or found.get(f"{export}-{volume.claim}") or found.get(volume.volume)
        urls = {form.get("format"): form.get("url") for form in (entry or {}).get("formats") or ()}
        if not urls.get("raw"):
            raise RefusedError(
                f"the export has no raw disk of claim {volume.claim}: only claims with a disk's image can be exported"
            )
        disk = RemoteDisk(ExportAddress(str(urls["raw"]), str(link.get("cert") or ""), token), self._pause)
        stack.callback(disk.close)
        return disk

    def _describe(self, source: _Source, lasting: list[LastingVolume], disks: list[RemoteDisk]) -> ArchiveManifest:
        vm = exported_vm.strip_vm(source.vm)
        left_out = exported_vm.find_left_out(source.vm)
        objects = []
        for needed in exported_vm.find_needed(source.vm):
            if not self._wish.with_secrets:
                left_out.append(f"{needed.kind} {needed.name}: --with-secrets takes it along")
                continue
            try:
                document = self._read(f"/api/v1/namespaces/{self._session.namespace}/{needed.resource}/{needed.name}")
            except NotFound:
                left_out.append(f"{needed.kind} {needed.name}: there is none")
                continue
            if exported_vm.is_portable(document):
                objects.append(exported_vm.strip_object(document, needed.kind))
        for text in left_out:
            self._tell(f"not in the file: {text}")
        entries = [self._describe_disk(volume, disk) for volume, disk in zip(lasting, disks, strict=True)]
        return ArchiveManifest(
            written_by=f"kvedge {kvedge.__version__}",
            created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            source=source.text,
            vm=vm,
            objects=objects,
            disks=entries,
            left_out=left_out,
        )

    def _describe_disk(self, volume: LastingVolume, disk: RemoteDisk) -> DiskEntry:
        spec: dict[str, Any] = {}
        # The claim of a snapshot's volume may be gone by now.
        with contextlib.suppress(NotFound):
            path = f"/api/v1/namespaces/{self._session.namespace}/persistentvolumeclaims/{volume.claim}"
            spec = self._read(path).get("spec") or {}
        return DiskEntry(
            volume=volume.volume,
            claim=volume.claim,
            size=disk.read_size(),
            storage_class=str(spec.get("storageClassName") or ""),
            access_modes=list(spec.get("accessModes") or ()),
            is_block=spec.get("volumeMode") == "Block",
            is_owned=volume.is_owned,
        )

    def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFound):
            self._session.client.request("DELETE", path)

    def _read(self, path: str) -> JsonObject:
        found: JsonObject = self._session.client.request("GET", path)
        return found


def _link_of(links: JsonObject) -> JsonObject:
    """Where the disks are read: from outside, where a way leads in."""
    return links.get("external") or links.get("internal") or {}


def _has_volumes(links: JsonObject) -> bool:
    return bool(_link_of(links).get("volumes"))
