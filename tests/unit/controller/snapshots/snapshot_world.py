"""Objects around snapshots, to which the plans' actions are applied as an API server would; claims and copies are
played by the tests.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kvedge.controller.snapshots.restore_plan import plan_restore
from kvedge.controller.snapshots.snapshot_actions import (
    Create,
    Delete,
    Freeze,
    Patch,
    PatchByOperations,
    SnapshotPlan,
    Thaw,
    Told,
)
from kvedge.controller.snapshots.snapshot_plan import plan_letting_go, plan_snapshot
from kvedge.controller.snapshots.snapshot_view import DriverClasses, FreezeCall, RestoreView, SnapshotView
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import condition
from kvedge.resources.types.data_volumes import CdiCondition, DataVolume
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.protection.volume_snapshots import DriverSnapshotStatus, VolumeSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, VM_UID, a_claim, a_vmi, patched, small_vmi, vm_of

UID = "0f5c0000-0000-4000-8000-000000000000"
RESTORE_UID = "0f5c0000-0000-4000-8000-000000000001"
REFERENCE = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
COPIES = {name: f"vmsnapshot-{UID}-volume-{name}" for name in ("root", "data")}
NEW = {name: f"restore-{RESTORE_UID}-{name}" for name in ("root", "data")}


def the_vm(**status: Any) -> VirtualMachine:
    """A stopped VM: a disk of its own DataVolume, one on a claim, and one that does not last."""
    template = {"metadata": {"name": "web-root"}, "spec": {"source": {"blank": {}}}}
    document = vm_of(small_vmi(), runStrategy="Halted", dataVolumeTemplates=[template])
    document["metadata"] = {"name": "web", "namespace": "default", "uid": VM_UID, "resourceVersion": "1"}
    document["spec"]["template"]["spec"]["volumes"] = [
        {"name": "root", "dataVolume": {"name": "web-root"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}},
        {"name": "tools", "containerDisk": {"image": "demo:1"}},
    ]
    return decode(VirtualMachine, {**document, "status": status})


class World:
    """One VM, a snapshot of it, and a restore of that."""

    def __init__(self, **spec: Any) -> None:
        self.now = NOW
        self.vm: VirtualMachine | None = the_vm()
        self.vmi: VirtualMachineInstance | None = None
        self.claims = {name: a_claim(name, storage_class_name="disks") for name in ("web-root", "web-data")}
        self.volumes: dict[str, DataVolume] = {"web-root": self.make_volume("web-root", owner=VM_UID)}
        self.pods: list[str] = []
        self.refusal = ""
        self.told: list[Told] = []
        self.snapshot: VirtualMachineSnapshot | None = decode(
            VirtualMachineSnapshot,
            {
                "metadata": {"name": "before", "namespace": "default", "uid": UID, "creationTimestamp": rfc3339(NOW)},
                "spec": {"source": REFERENCE, **spec},
            },
        )
        self.content: VirtualMachineSnapshotContent | None = None
        self.restore: VirtualMachineRestore | None = None
        self.operations: list[Any] = []
        self.revision: Any = None
        # What storage drivers can do, and have done; with the guest's freezes as they come.
        self.classes = DriverClasses()
        self.driver_snapshots: dict[str, VolumeSnapshot] | None = {}
        self.binds_late: set[str] = set()
        self.unfilled: list[str] = []
        self.guest_orders: list[str] = []
        # A guest whose agent does not answer yet.
        self.freezes = True
        self.thaws = True
        self.freeze: FreezeCall | None = None

    @staticmethod
    def make_volume(name: str, phase: str = "Succeeded", owner: str = "") -> DataVolume:
        owners = [{"apiVersion": "v1", "kind": "VirtualMachine", "name": "web", "uid": owner, "controller": True}]
        metadata = {"name": name, "namespace": "default", "ownerReferences": owners if owner else []}
        return decode(DataVolume, {"metadata": metadata, "status": {"phase": phase}})

    def ask_restore(self, target: str = "web", **spec: Any) -> None:
        metadata = {"name": "back", "namespace": "default", "uid": RESTORE_UID, "creationTimestamp": rfc3339(self.now)}
        aim = {**REFERENCE, "name": target}
        body = {"target": aim, "virtualMachineSnapshotName": "before", **spec}
        self.restore = decode(VirtualMachineRestore, {"metadata": metadata, "spec": body})

    def look(self) -> SnapshotPlan:
        """What the plan of the snapshot says now."""
        assert self.snapshot is not None
        view = SnapshotView(
            self.snapshot,
            self.content,
            self.vm,
            self.vmi,
            self.claims,
            self.volumes,
            self.pods,
            self.refusal,
            self.revision,
            classes=self.classes,
            driver_snapshots=self.driver_snapshots,
            unfilled=self.unfilled,
            freeze=self.freeze,
        )
        return plan_snapshot(view, self.now)

    def settle(self) -> SnapshotPlan:
        """Do what the plan says until it says nothing more."""
        return self._settle("snapshot", self.look)

    def look_at_restore(self) -> SnapshotPlan:
        """What the plan of the restore says now."""
        assert self.restore is not None
        target = self.vm if self.vm is not None and self.vm.metadata.name == self.restore.spec.target.name else None
        view = RestoreView(
            self.restore,
            self.snapshot,
            self.content,
            target,
            self.vmi,
            self.claims,
            self.volumes,
            self.volumes,
            self.refusal,
            self.volumes,
            driver_snapshots=self.driver_snapshots,
            binds_late=self.binds_late,
        )
        return plan_restore(view, self.now)

    def settle_restore(self) -> SnapshotPlan:
        """The same for the restore."""
        return self._settle("restore", self.look_at_restore)

    def take(self) -> None:
        """Have the snapshot, complete."""
        self.settle()
        self.fill(*COPIES.values())
        self.settle()
        assert self.snapshot is not None
        assert self.snapshot.status.phase == "Succeeded"

    def fill(self, *names: str, phase: str = "Succeeded", restarts: int = 0, message: str = "") -> None:
        """Play the workers of these DataVolumes, and what binds their claims."""
        for name in names:
            status = self.volumes[name].status
            status.phase, status.restart_count = phase, restarts
            status.conditions = [CdiCondition(type="Running", status="False", message=message)] if message else []
            self.claims[name] = a_claim(name, storage_class_name="disks")

    def use_driver(self) -> None:
        """Have a storage driver that takes snapshots of both claims."""
        self.classes = DriverClasses({"web-root": "fast", "web-data": "fast"})

    def drive(self, *names: str, **status: Any) -> None:
        """Play the driver for these VolumeSnapshots, or for all."""
        assert self.driver_snapshots is not None
        for name in names or tuple(self.driver_snapshots):
            told = {"creation_time": rfc3339(self.now), **status}
            self.driver_snapshots[name].status = DriverSnapshotStatus(**told)

    def run(self) -> None:
        assert self.vm is not None
        assert self.vm.spec.template is not None
        self.vmi = a_vmi("Running", owner=self.vm)
        self.vmi.spec.volumes = list(self.vm.spec.template.spec.volumes)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def delete(self, which: str) -> None:
        getattr(self, which).metadata.deletion_timestamp = rfc3339(self.now)

    def reason(self, which: str = "snapshot", type_: str = "Progressing") -> str:
        found = condition(getattr(self, which).status.conditions, type_)
        return "" if found is None else found.reason

    def _settle(self, which: str, look: Any) -> SnapshotPlan:
        for _ in range(20):
            if getattr(self, which) is None:
                return SnapshotPlan()
            plan: SnapshotPlan = look()
            if not plan.actions:
                return plan
            for action in plan.actions:
                self._do(action)
            self.told += plan.told
            if self.content is not None and (write := plan_letting_go(self.content, self.unfilled)) is not None:
                self._do(write)
        raise AssertionError(f"the plan does not settle: {plan}")

    def _do(self, action: Any) -> None:
        match action:
            case Create(VirtualMachineSnapshotContent() as item):
                item.metadata.uid = "uid-of-the-content"
                self.content = item
            case Create(VirtualMachine() as item):
                item.metadata.uid = "uid-of-the-new-one"
                self.vm = item
            case Create(PersistentVolumeClaim() as item):
                item.metadata.uid = f"uid-of-{item.metadata.name}"
                item.status.phase = "Bound"
                self.claims[item.metadata.name] = item
            case Create(DataVolume() as item):
                self.volumes[item.metadata.name] = item
            case Create(VolumeSnapshot() as item):
                assert self.driver_snapshots is not None
                self.driver_snapshots[item.metadata.name] = item
                self.guest_orders.append(f"snapshot {item.spec.source.persistent_volume_claim_name}")
            case Freeze() if not self.freezes:
                self.freeze = FreezeCall(True, self.now)
            case Freeze(vmi, seconds):
                self.guest_orders.append(f"freeze {seconds}")
                vmi.status.fs_freeze_status = "frozen"
                self.freeze = FreezeCall(True, self.now, self.now)
            case Thaw() if not self.thaws:
                self.freeze = FreezeCall(False, self.now)
            case Thaw(vmi):
                self.freeze = FreezeCall(False, is_thawed=True)
                self.guest_orders.append("thaw")
                vmi.status.fs_freeze_status = ""
            case Patch(item, body):
                self._put(type(item), item, body)
            case PatchByOperations(_, operations):
                self.operations = list(operations)
                assert self.vm is not None
                self.vm.metadata.annotations[operations[-1]["path"].rpartition("/")[2].replace("~1", "/")] = operations[
                    -1
                ]["value"]
            case Delete(VirtualMachineInstance()):
                self.vmi = None
            case Delete(VirtualMachine()):
                self.delete("vm")
            case Delete(VirtualMachineSnapshotContent()):
                self.delete("content")
            case Delete(PersistentVolumeClaim() as item):
                del self.claims[item.metadata.name]
            case Delete(item):
                del self.volumes[item.metadata.name]

    def _put(self, cls: Any, item: Any, body: Any) -> None:
        made = decode(cls, patched(encode(item), body))
        if made.metadata.deletion_timestamp is not None and not made.metadata.finalizers:
            made = None
        if cls is PersistentVolumeClaim:
            self.claims[item.metadata.name] = made
            return
        if cls is DataVolume:
            self.volumes[item.metadata.name] = made
            return
        kinds = {
            VirtualMachineSnapshot: "snapshot",
            VirtualMachineSnapshotContent: "content",
            VirtualMachineRestore: "restore",
            VirtualMachine: "vm",
            VirtualMachineInstance: "vmi",
        }
        setattr(self, kinds[cls], made)
