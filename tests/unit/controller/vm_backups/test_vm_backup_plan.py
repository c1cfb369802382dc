# Tests: kvedge/controller/vm_backups/vm_backup_order.py, kvedge/controller/vm_backups/vm_backup_report.py
# Tests: kvedge/controller/vm_backups/vm_backup_waits.py, kvedge/controller/vm_backups/vm_backup_view.py
# Tests: kvedge/controller/vm_backups/served_backup.py, kvedge/resources/disks/vm_backups.py
# Tests: kvedge/resources/types/protection/vm_backups.py
"""What is done about a backup of a running VM, step by step."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kvedge.controller.snapshots.snapshot_actions import Create, Patch, SnapshotPlan
from kvedge.controller.vm_backups.vm_backup_order import is_asked, order_id
from kvedge.controller.vm_backups.vm_backup_plan import plan_vm_backup
from kvedge.controller.vm_backups.vm_backup_view import FINALIZER, VmBackupView
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, a_claim, a_vm, patched

UID = "0f5c0000-0000-4000-8000-000000000009"
TRACKER = {"apiGroup": "backup.kubevirt.io", "kind": "VirtualMachineBackupTracker", "name": "chain"}
VM = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
STAMP = NOW.strftime("%Y-%m-%d_%H-%M-%S")


def a_run(**status: Any) -> VirtualMachineInstance:
    disks = [
        {"name": "root", "disk": {"bus": "virtio"}},
        {"name": "iso", "cdrom": {"bus": "sata"}},
        {"name": "seed", "disk": {"bus": "virtio"}},
        {"name": "late", "disk": {"bus": "scsi"}},
    ]
    volumes = [
        {"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}},
        {"name": "iso", "persistentVolumeClaim": {"claimName": "iso"}},
        {"name": "seed", "cloudInitNoCloud": {"userData": "x"}},
        {"name": "late", "dataVolume": {"name": "late", "hotpluggable": True}},
    ]
    document = {
        "metadata": {"name": "web", "namespace": "default", "uid": "run-1"},
        "spec": {"domain": {"devices": {"disks": disks}}, "volumes": volumes},
        "status": {"phase": "Running", "changedBlockTracking": {"state": "Enabled"}, **status},
    }
    return decode(VirtualMachineInstance, document)


class World:
    """A backup, and what there is around it; what its plan says is done to these."""

    def __init__(self, **spec: Any) -> None:
        meta = {"name": "b", "namespace": "default", "uid": UID, "creationTimestamp": rfc3339(NOW)}
        body = {"source": TRACKER, "pvcName": "usb", **spec}
        chain = {"metadata": {"name": "chain", "namespace": "default", "uid": "t"}, "spec": {"source": VM}}
        self.view = VmBackupView(
            decode(VirtualMachineBackup, {"metadata": meta, "spec": body}),
            tracker=decode(VirtualMachineBackupTracker, chain) if body["source"] is TRACKER else None,
            vm=a_vm(),
            vmi=a_run(),
            claim=a_claim("usb"),
        )
        self.told: list[str] = []
        self.now = NOW

    def set(self, **parts: Any) -> None:
        self.view = VmBackupView(**{name: getattr(self.view, name) for name in VmBackupView.__struct_fields__} | parts)

    def settle(self) -> SnapshotPlan:
        for _ in range(10):
            plan = plan_vm_backup(self.view, self.now)
            if not plan.actions:
                return plan
            for action in plan.actions:
                match action:
                    case Create(VirtualMachineExport() as item):
                        self.set(export=item)
                    case Patch(item, body):
                        made = decode(type(item), patched(encode(item), body))
                        names = {VirtualMachineBackup: "backup", VirtualMachineInstance: "vmi"}
                        self.set(**{names.get(type(item), "tracker"): made})
                    case _:
                        raise AssertionError(action)
            self.told += [each.reason for each in plan.told]
        raise AssertionError("the plan does not settle")

    def say(self, **words: Any) -> None:
        """What the handler says of the order."""
        assert self.view.vmi is not None
        status = encode(self.view.vmi.status)
        told = {"state": "Enabled", "backupStatus": {"backupName": order_id(self.view.backup), **words}}
        document = patched(encode(self.view.vmi), {"status": {**status, "changedBlockTracking": told}})
        self.set(vmi=decode(VirtualMachineInstance, document))

    def complete(self, **words: Any) -> None:
        self.settle()
        moment = {"startTimestamp": rfc3339(NOW), "quiesceStatus": "GuestAgent", "backupType": "Full"}
        self.say(completed=True, **moment | words)
        self.settle()

    def words(self, type_: str) -> tuple[str, str, str]:
        found = condition(self.view.backup.status.conditions, type_)
        return ("", "", "") if found is None else (found.status, found.reason, found.message)

    @property
    def order(self) -> Any:
        assert self.view.vmi is not None
        assert self.view.vmi.status.disk_copy is not None
        return self.view.vmi.status.disk_copy

    @property
    def checkpoint(self) -> str:
        return "" if self.view.tracker is None else self.view.tracker.checkpoint


def test_a_backup_asks_for_the_disks_that_the_guest_writes_and_brings_its_claim() -> None:
    world = World()
    world.set(checkpoints=("other",))
    world.settle()
    assert FINALIZER in world.view.backup.metadata.finalizers
    assert [each.volume_name for each in world.order.volumes] == ["root", "late"]
    order = world.order.backup
    assert (order.directory, order.prefix, order.checkpoint) == (f"web/b-{STAMP}", "b", f"b-{STAMP}")
    assert (order.since, order.kept_checkpoints, order.skip_quiesce) == ("", ["other"], False)
    assert world.view.vmi is not None
    (brought,) = world.view.vmi.spec.utility_volumes
    assert (brought.name, brought.claim_name, brought.type) == (order.target, "usb", "Backup")
    assert world.words("Progressing")[1] == "Initializing"
    world.say(startTimestamp=rfc3339(NOW), quiesceStatus="QuiesceSkipped", backupMsg="5%")
    world.settle()
    assert world.words("Progressing") == ("True", "Initiated", "Backup is in progress")
    assert world.words("Quiesced")[:2] == ("False", "QuiesceSkipped")


def test_when_it_is_whole_the_tracker_goes_on_from_it_and_the_vm_is_let_go() -> None:
    world = World()
    world.complete()
    assert world.words("Complete") == ("True", "Completed", "Successfully completed VirtualMachineBackup")
    assert world.words("Progressing") == ("False", *world.words("Complete")[1:])
    assert world.words("Quiesced")[:2] == ("True", "QuiesceSucceeded")
    assert world.view.backup.status.type == "Full"
    assert world.checkpoint == f"b-{STAMP}"
    assert world.told == ["VirtualMachineBackupCompletedSuccessfully"]
    assert world.view.vmi is not None
    assert not world.view.vmi.spec.utility_volumes
    assert not is_asked(world.view.vmi, world.view.backup)


def test_the_tracker_goes_on_before_it_is_called_complete() -> None:
    world = World()
    world.settle()
    world.say(completed=True, startTimestamp=rfc3339(NOW), backupType="Full")
    written = [type(each.item) for each in plan_vm_backup(world.view, NOW).actions if isinstance(each, Patch)]
    assert written == [VirtualMachineBackupTracker, VirtualMachineBackup, VirtualMachineInstance]


def with_checkpoint(world: World) -> None:
    assert world.view.tracker is not None
    latest = {"status": {"latestCheckpoint": {"name": "b-0"}}}
    document = patched(encode(world.view.tracker), latest)
    world.set(tracker=decode(VirtualMachineBackupTracker, document), checkpoints=("b-0",))


def test_the_next_one_asks_for_changes_since_the_trackers_checkpoint() -> None:
    world = World()
    with_checkpoint(world)
    world.complete(backupType="Incremental")
    assert world.view.backup.status.type == "Incremental"


@pytest.mark.parametrize("why", ["forced", "shared", "alone"])
def test_all_is_asked_for_where_changes_are_not_enough(why: str) -> None:
    world = World(**{"forceFullBackup": True} if why == "forced" else {"source": VM} if why == "alone" else {})
    if why != "alone":
        with_checkpoint(world)
    if why == "shared":
        assert world.view.vmi is not None
        world.view.vmi.spec.domain.devices.disks[0].shareable = True
    world.settle()
    assert world.order.backup.since == ""
    assert (world.order.backup.checkpoint == "") == (why == "alone")


def test_changes_that_were_lost_are_told_of_a_full_backup() -> None:
    world = World()
    with_checkpoint(world)
    world.complete(backupMsg="what has changed on disk root since checkpoint b-0 is not known")
    assert world.words("Complete")[1] == "CompletedWithWarning"
    assert "disk root since checkpoint b-0" in world.words("Complete")[2]
    assert world.told == ["VirtualMachineBackupCompletedWithWarning", "CheckpointRedefinitionFailed"]
    assert world.checkpoint == f"b-{STAMP}"


def test_one_that_failed_leaves_the_tracker_where_it_was() -> None:
    world = World()
    with_checkpoint(world)
    world.settle()
    world.say(failed=True, backupMsg="no space left")
    world.settle()
    assert world.words("Failed") == ("True", "Failed", "Backup has failed: no space left")
    assert world.words("Progressing") == ("False", *world.words("Failed")[1:])
    assert world.checkpoint == "b-0"
    assert not is_asked(world.view.vmi, world.view.backup)


@pytest.mark.parametrize(
    ("change", "wait"),
    [
        pytest.param({"tracker": None}, "BackupTracker chain does not exist", id="no tracker"),
        pytest.param({"vm": None}, "VM default/web doesnt exist", id="no VM"),
        pytest.param({"vmi": None}, "vm web is not running, cannot do backup", id="no run"),
        pytest.param({"vmi": a_run(phase="Scheduled")}, "vm web is not running", id="it starts"),
        pytest.param({"vmi": a_run(changedBlockTracking={})}, "has no ChangedBlockTracking", id="not selected"),
        pytest.param({"rival": "a"}, 'VirtualMachineBackup "a" in progress for source', id="another backup"),
        pytest.param({"claim": None}, "PVC default/usb doesnt exist", id="no claim"),
        pytest.param({"vmi": a_run(evacuationNodeName="n")}, "is to leave its node", id="a drained node"),
        pytest.param({"vmi": a_run(diskCopy={"name": "s"})}, "another backup or snapshot", id="a snapshot's copies"),
        pytest.param({"vm": a_vm(snapshot_in_progress="s")}, '"s" of vm web in progress', id="a snapshot"),
    ],
)
def test_it_waits_and_says_for_what(change: dict[str, Any], wait: str) -> None:
    world = World()
    world.set(**change)
    plan = world.settle()
    assert wait in world.words("Progressing")[2]
    assert plan.again_after


def test_a_vm_alone_is_backed_up_without_tracking() -> None:
    world = World(source=VM)
    world.set(vmi=a_run(changedBlockTracking=None))
    world.settle()
    assert is_asked(world.view.vmi, world.view.backup)


@pytest.mark.parametrize(
    ("claim", "name", "words"),
    [
        (a_claim("usb", volume_mode="Block"), "usb", "is a block device"),
        (a_claim("web-root"), "web-root", "is volume root of the VM itself"),
    ],
)
def test_a_claim_that_takes_no_images_fails_it_at_once(claim: Any, name: str, words: str) -> None:
    world = World(pvcName=name)
    world.set(claim=claim)
    world.settle()
    assert words in world.words("Failed")[2]
    assert not is_asked(world.view.vmi, world.view.backup)


def test_a_run_that_ends_meanwhile_fails_it() -> None:
    world = World()
    world.settle()
    world.say(startTimestamp=rfc3339(NOW))
    world.settle()
    world.set(vmi=None)
    world.settle()
    assert world.words("Failed")[1:] == ("SourceLost", "VMI was deleted during backup")


def test_a_drained_node_ends_it() -> None:
    world = World()
    world.settle()
    assert world.view.vmi is not None
    world.set(
        vmi=decode(VirtualMachineInstance, patched(encode(world.view.vmi), {"status": {"evacuationNodeName": "n"}}))
    )
    world.settle()
    assert "system-critical migration" in world.words("Failed")[2]
    assert not is_asked(world.view.vmi, world.view.backup)


def test_a_run_that_ends_before_the_moment_is_waited_for() -> None:
    world = World()
    world.settle()
    world.set(vmi=a_run())
    world.settle()
    assert is_asked(world.view.vmi, world.view.backup)
    assert world.order.backup.checkpoint == f"b-{STAMP}"


def ready(world: World) -> None:
    assert world.view.export is not None
    links = {"internal": {"cert": "CA"}}
    document = patched(
        encode(world.view.export), {"metadata": {"uid": "e"}, "status": {"phase": "Ready", "links": links}}
    )
    world.set(export=decode(VirtualMachineExport, document))


def test_a_pulled_one_is_served_until_its_time_is_over() -> None:
    world = World(mode="Pull", tokenSecretRef="token", ttlDuration="30m")
    # The images of large disks take longer than clients have.
    world.settle()
    world.now = NOW + timedelta(hours=9)
    world.complete()
    assert world.words("Progressing")[1] == "PreparingExport"
    assert not is_asked(world.view.vmi, world.view.backup)
    export = world.view.export
    assert export is not None
    assert (export.spec.source.kind, export.spec.source.name) == ("VirtualMachineBackup", "b")
    # Until it is ready at the latest, and its time after that.
    assert (export.spec.token_secret_ref, export.spec.ttl_duration) == ("token", "3600s")
    assert world.checkpoint == ""
    world.now = begun = NOW + timedelta(hours=9, minutes=25)
    ready(world)
    plan = world.settle()
    assert world.words("Progressing")[1:] == ("ExportReady", "Backup export is ready to pull")
    assert plan.again_after == 1800
    status = world.view.backup.status
    assert (status.endpoint_cert, status.export_uid) == ("CA", "e")
    assert status.included_volumes[0].data_endpoint.endswith(".default.svc/exports/root/data")
    world.now = begun + timedelta(minutes=29)
    world.set(export=None)
    world.settle()
    assert world.view.export is not None
    assert world.view.export.spec.ttl_duration == "60s"
    assert world.words("Progressing")[1] == "PreparingExport"
    assert world.view.export.metadata.name == world.view.backup.metadata.name
    world.now = begun + timedelta(minutes=30)
    world.settle()
    assert world.words("Complete")[1] == "Completed"
    assert world.told[-2:] == ["VirtualMachineBackupAborting", "VirtualMachineBackupCompletedSuccessfully"]
    assert world.checkpoint == f"b-{STAMP}"


def test_one_whose_export_was_never_ready_fails_in_time_and_leaves_the_tracker() -> None:
    world = World(mode="Pull", tokenSecretRef="token", ttlDuration="30m")
    with_checkpoint(world)
    world.settle()
    world.now = NOW + timedelta(hours=9)
    world.complete()
    world.now += timedelta(minutes=29)
    world.settle()
    assert world.words("Failed") == ("", "", "")
    world.now += timedelta(minutes=1)
    world.settle()
    assert "no export was ready within 0:30:00" in world.words("Failed")[2]
    assert world.checkpoint == "b-0"


def delete(world: World) -> None:
    meta = msgspec.structs.replace(world.view.backup.metadata, deletion_timestamp=rfc3339(NOW))
    world.set(backup=msgspec.structs.replace(world.view.backup, metadata=meta))
    world.settle()
    assert world.view.backup.metadata.finalizers == []


def test_deleting_a_served_one_is_how_it_ends_well() -> None:
    world = World(mode="Pull", tokenSecretRef="token")
    world.complete()
    ready(world)
    world.settle()
    delete(world)
    assert world.checkpoint == f"b-{STAMP}"


def test_deleting_one_whose_export_was_not_ready_leaves_the_tracker() -> None:
    world = World(mode="Pull", tokenSecretRef="token")
    world.complete()
    assert world.words("Progressing")[1] == "PreparingExport"
    delete(world)
    assert world.checkpoint == ""
    assert world.told == ["VirtualMachineBackupAborting"]


def test_deleting_one_under_way_ends_it_and_leaves_the_tracker() -> None:
    world = World()
    world.settle()
    delete(world)
    assert world.checkpoint == ""
    assert not is_asked(world.view.vmi, world.view.backup)
    assert world.told == ["VirtualMachineBackupAborting"]
