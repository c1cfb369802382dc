"""Makes a VM of a file: what could be in the way is looked at first, then its disks are sent, then it is made.

Called by `kvedge import`. Talks to the API server and its upload proxy. What an import that fails has made is deleted
again, whatever the failure is.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from kvedge.client.errors import NotFoundError, RefusedError
from kvedge.client.session import Session
from kvedge.client.uploads.image_upload import ImageUpload, UploadWish
from kvedge.client.vm_files.host_room import find_room
from kvedge.client.vm_files.imported_vm import (
    ImportPlan,
    ImportWish,
    PlannedDisk,
    make_data_volume,
    plan_import,
)
from kvedge.client.vm_files.machine_file import MachineFile
from kvedge.client.vm_files.made_objects import MadeObjects
from kvedge.client.volumes.volume_usage import bytes_text
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.identity import plain_mac
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.quantities import QuantityError, parse_quantity

_MERGE: Final = "application/merge-patch+json"
_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_NETWORKS: Final = "/apis/k8s.cni.cncf.io/v1"
_QUOTA: Final = "requests.storage"
_TRIES: Final = 10
_MOST_TOLD: Final = 100
_LONGEST_TOLD: Final = 1000


class VmImport:
    """One import."""

    def __init__(
        self,
        session: Session,
        wish: ImportWish,
        tell: Callable[[str], None],
        show: Callable[[int, int], None],
        *,
        wait_seconds: float = 300.0,
        insecure: bool = False,
        proxy_url: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`tell` gets what happens, `show` how much of a disk was sent of how much.

        `wait_seconds` is how long each disk may take until it can be sent; `insecure` and `proxy_url` are for uploads.
        """
        self._session = session
        self._wish = wish
        self._tell = tell
        self._show = show
        self._wait_seconds = wait_seconds
        self._insecure = insecure
        self._proxy_url = proxy_url
        self._pause = pause
        self._made = MadeObjects(session)

    def run(self, machine: MachineFile) -> str:
        """Import it; returns the VM's name.

        Raises:
            ClientError, KubeError: with what is in the way; nothing is left of the import then.
        """
        plan = self._choose_classes(plan_import(machine.manifest, self._wish, machine.least_sizes), machine)
        objects = self._check(plan)
        self._check_room(plan, [source.size for source in machine.sources])
        self._tell_all(machine.sent_from)
        self._tell_all(plan.notes)
        self._tell_all(machine.warnings)
        try:
            self._make(plan, objects, machine)
        except BaseException:
            self._take_back()
            raise
        return plan.name

    def _tell_all(self, texts: list[str]) -> None:
        """A file may have as many of them as its maker wants."""
        for text in texts[:_MOST_TOLD]:
            self._tell(text[:_LONGEST_TOLD])
        if len(texts) > _MOST_TOLD:
            self._tell(f"and {len(texts) - _MOST_TOLD} more like these")

    def _choose_classes(self, plan: ImportPlan, machine: MachineFile) -> ImportPlan:
        """The classes that the disks had, where there are such here and none was named."""
        if self._wish.storage_class:
            if plan.disks and self._find(f"{_CLASSES}/{self._wish.storage_class}") is None:
                raise NotFoundError(f"--storage-class {self._wish.storage_class}: there is no such class")
            return plan
        disks, told = [], set()
        for disk, entry in zip(plan.disks, machine.manifest.disks, strict=True):
            wanted = entry.storage_class
            known = bool(wanted) and self._find(f"{_CLASSES}/{wanted}") is not None
            if wanted and not known and wanted not in told:
                told.add(wanted)
                self._tell(f"there is no storage class {wanted[:63]} here: its disks come into the default one")
            disks.append(PlannedDisk(disk.name, disk.volume, disk.size, wanted if known else "", disk.is_owned))
        return ImportPlan(plan.name, plan.vm, disks, plan.objects, plan.notes)

    def _check(self, plan: ImportPlan) -> list[JsonObject]:
        """Refuse what cannot be done, before anything is written; returns the objects that are to be made."""
        namespace = self._session.namespace
        taken = [
            f"{cls.KIND.kind} {name}"
            for cls, name in self._names(plan)
            if self._find(cls.KIND.path(namespace, name)) is not None
        ]
        if taken:
            raise RefusedError(
                f"{', '.join(taken)} in namespace {namespace}: there already; delete what is not needed, or import "
                "under another --name"
            )
        self._check_macs(plan)
        self._check_quota(sum(disk.size for disk in plan.disks))
        self._tell_networks(plan)
        objects = [document for document in plan.objects if not self._is_there(document)]
        # The server's own rules; after hours of sending would be too late.
        dry = {**plan.vm, "metadata": {**plan.vm["metadata"], "namespace": namespace}}
        self._session.client.request("POST", VirtualMachine.KIND.path(namespace), dry, {"dryRun": "All"})
        return objects

    def _names(
        self, plan: ImportPlan
    ) -> Iterator[tuple[type[VirtualMachine | DataVolume | PersistentVolumeClaim], str]]:
        yield VirtualMachine, plan.name
        for disk in plan.disks:
            yield DataVolume, disk.name
            yield PersistentVolumeClaim, disk.name

    def _is_there(self, document: JsonObject) -> bool:
        name = document["metadata"]["name"]
        found = self._find(self._path_of(document))
        if found is None:
            return False
        if any((found.get(key) or {}) != (document.get(key) or {}) for key in ("data", "binaryData")):
            raise RefusedError(
                f"{document['kind']} {name} in namespace {self._session.namespace}: there already, with other content; "
                "rename it there, or import into another namespace"
            )
        return True

    def _check_macs(self, plan: ImportPlan) -> None:
        wanted = set(plan.macs())
        if not wanted:
            return
        try:
            vms = self._session.client.list(VirtualMachine, None)
        except Forbidden:
            vms = self._session.client.list(VirtualMachine, self._session.namespace)
        for vm in vms:
            interfaces = vm.spec.template.spec.domain.devices.interfaces if vm.spec.template is not None else []
            for nic in interfaces:
                if nic.mac_address and plain_mac(nic.mac_address) in wanted:
                    raise RefusedError(
                        f"VM {vm.metadata.namespace}/{vm.metadata.name} has the MAC address {nic.mac_address} of this "
                        "VM: --new-macs gives it others"
                    )

    def _check_quota(self, size: int) -> None:
        with contextlib.suppress(NotFound, Forbidden):
            path = f"/api/v1/namespaces/{self._session.namespace}/resourcequotas"
            for quota in (self._session.client.request("GET", path) or {}).get("items") or ():
                status = quota.get("status") or {}
                with contextlib.suppress(QuantityError, KeyError):
                    left = parse_quantity(status["hard"][_QUOTA]) - parse_quantity(status["used"][_QUOTA])
                    if size > left:
                        raise RefusedError(
                            f"the disks need {bytes_text(size)}, and quota {quota['metadata']['name']} leaves "
                            f"{bytes_text(max(0, int(left)))} of {_QUOTA}"
                        )

    def _check_room(self, plan: ImportPlan, sizes: list[int]) -> None:
        """Whether the images fit, by the class of their disks; a quota knows nothing of a disk that is full."""
        needed: dict[str, int] = {}
        for disk, size in zip(plan.disks, sizes, strict=True):
            needed[disk.storage_class] = needed.get(disk.storage_class, 0) + size
        try:
            volumes = self._session.client.list(PersistentVolume, None) if needed else []
        except Forbidden:
            return
        for storage_class, size in needed.items():
            room = find_room(volumes, storage_class)
            if room is not None and size > room:
                raise RefusedError(
                    f"the disks need {bytes_text(size)}, and {bytes_text(room)} are free where their volumes lie: free "
                    "some, or choose another --storage-class"
                )

    def _tell_networks(self, plan: ImportPlan) -> None:
        for network in plan.vm["spec"]["template"]["spec"].get("networks") or ():
            name = (network.get("multus") or {}).get("networkName")
            if not name:
                continue
            place, _, short = str(name).rpartition("/")
            path = f"{_NETWORKS}/namespaces/{place or self._session.namespace}/network-attachment-definitions/{short}"
            with contextlib.suppress(Forbidden):
                if self._find(path) is None:
                    self._tell(f"there is no network {name} here: the VM does not start before it is made")

    def _make(self, plan: ImportPlan, objects: list[JsonObject], machine: MachineFile) -> None:
        for document in objects:
            self._made.make(self._path_of(document).rpartition("/")[0], document)
        for number, (disk, source) in enumerate(zip(plan.disks, machine.sources, strict=True)):
            self._tell(f"disk {disk.name} ({number + 1} of {len(plan.disks)}), {bytes_text(disk.size)}")
            self._made.make(DataVolume.KIND.path(self._session.namespace), make_data_volume(disk))
            upload = UploadWish(
                name=disk.name,
                source=source,
                create=False,
                force_bind=True,
                insecure=self._insecure,
                proxy_url=self._proxy_url,
                tries=_TRIES,
                wait_seconds=self._wait_seconds,
            )
            before = source.identity()
            ImageUpload(self._session, upload, lambda text: None, self._show, self._pause).run()
            if source.identity() != before:
                raise RefusedError(
                    f"the image of disk {disk.name} has changed while it was sent: a guest writes it; shut that down, "
                    "and import again"
                )
        vm = self._made.make(VirtualMachine.KIND.path(self._session.namespace), plan.vm)
        for disk in plan.disks:
            if disk.is_owned:
                self._give(disk.name, vm)

    def _give(self, name: str, vm: JsonObject) -> None:
        """Have a disk go with the VM, as one of its dataVolumeTemplates would."""
        owner = {
            "apiVersion": vm["apiVersion"],
            "kind": vm["kind"],
            "name": vm["metadata"]["name"],
            "uid": vm["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        body = {"metadata": {"ownerReferences": [owner]}}
        path = DataVolume.KIND.path(self._session.namespace, name)
        self._session.client.request("PATCH", path, body, None, _MERGE)

    def _take_back(self) -> None:
        """Delete what was made; what cannot be deleted is named."""
        if left := self._made.take_back():
            self._tell(f"these are left of the import, or may be, and are to be deleted: {', '.join(left)}")

    def _path_of(self, document: JsonObject) -> str:
        resource = {"Secret": "secrets", "ConfigMap": "configmaps"}[document["kind"]]
        return f"/api/v1/namespaces/{self._session.namespace}/{resource}/{document['metadata']['name']}"

    def _find(self, path: str) -> JsonObject | None:
        try:
            found: JsonObject = self._session.client.request("GET", path)
        except NotFound:
            return None
        return found
