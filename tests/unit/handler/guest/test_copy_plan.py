"""What the handler does about the copy of a guest's disks, and what the VMI tells of it."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.guest.copy_plan import CopyStep, make_request, plan_copy, wait
from kvedge.resources.types.vmi import (
    BackupOrder,
    BackupStatus,
    ChangedBlockTracking,
    ClaimInfo,
    CopiedVolume,
    DiskCopyRequest,
    VirtualMachineInstance,
    VolumeStatus,
)
from kvedge.rpc import launcher_pb2 as m
from tests.support.builders import a_vmi

REQUEST = DiskCopyRequest(name="snap", volumes=[CopiedVolume(volume_name="root", copy_name="root-copy-x")])
THERE = frozenset({"root-copy-x"})


def asked(request: DiskCopyRequest | None = REQUEST, **told: Any) -> VirtualMachineInstance:
    vmi = a_vmi("Running")
    vmi.status.disk_copy = request
    if told:
        vmi.status.changed_block_tracking = ChangedBlockTracking(backup_status=BackupStatus(backup_name="snap", **told))
    return vmi


def launcher(job: int = m.DISK_COPY_NONE, name: str = "snap", **more: Any) -> m.DomainStatus:
    status = m.DomainStatus(state=m.DOMAIN_STATE_RUNNING, copies_disks=True)
    if job:
        status.disk_copy.CopyFrom(m.DiskCopyJob(id=name, state=m.DiskCopyState.Name(job), **more))
    return status


def test_nothing_is_done_and_nothing_told_while_nobody_asks() -> None:
    plan = plan_copy(asked(None), launcher(), ())
    assert (plan.step, plan.status) == (CopyStep.NOTHING, None)


def test_a_copy_begins_when_all_that_it_goes_into_is_there() -> None:
    assert plan_copy(asked(), launcher(), THERE).step is CopyStep.BEGIN
    waiting = plan_copy(asked(), launcher(), ())
    assert waiting.step is CopyStep.NOTHING
    assert waiting.status is not None
    assert "root-copy-x" in (waiting.status.backup_msg or "")


def test_a_launcher_that_copies_no_state_of_a_tpm_fails_it_with_the_remedy() -> None:
    volume = CopiedVolume(volume_name="persistent-state-for-this-vm", copy_name=REQUEST.volumes[0].copy_name)
    request = DiskCopyRequest(name="snap", volumes=[volume])
    told = plan_copy(asked(request), launcher(), THERE).status
    assert told is not None
    assert (told.failed, "restart or migrate the VM" in (told.backup_msg or "")) == (True, True)
    able = launcher()
    able.copies_state = True
    assert plan_copy(asked(request), able, THERE).step is CopyStep.BEGIN


def test_a_launcher_of_an_older_release_fails_it_with_the_remedy() -> None:
    status = launcher()
    status.copies_disks = False
    told = plan_copy(asked(), status, THERE).status
    assert told is not None
    assert told.failed
    assert "restart or migrate the VM" in (told.backup_msg or "")


@pytest.mark.parametrize("job", [m.DISK_COPY_PREPARING, m.DISK_COPY_ACTIVE])
def test_a_copy_that_nobody_wants_any_more_ends(job: int) -> None:
    for vmi in (asked(None), asked(failed=True)):
        plan = plan_copy(vmi, launcher(job), THERE)
        assert (plan.step, plan.name) == (CopyStep.ABORT, "snap")
    other = plan_copy(asked(), launcher(job, "older"), THERE)
    assert (other.step, other.name) == (CopyStep.ABORT, "older")


def test_its_moment_and_progress_are_told() -> None:
    job = launcher(m.DISK_COPY_ACTIVE, started_unix_ms=1_700_000_000_000, percent=7, quiesce="GuestAgent")
    told = plan_copy(asked(), job, THERE).status
    assert told == BackupStatus(
        backup_name="snap", start_timestamp="2023-11-14T22:13:20Z", backup_msg="7%", quiesce_status="GuestAgent"
    )


def test_a_whole_copy_is_told_of_once_its_claims_say_so() -> None:
    job = launcher(m.DISK_COPY_COMPLETE, started_unix_ms=1_700_000_000_000, ended_unix_ms=1_700_000_001_000)
    plan = plan_copy(asked(), job, THERE)
    assert plan.step is CopyStep.ACCEPT
    assert plan.status is not None
    assert plan.status.completed
    refused = wait(plan, "its Pod is gone")
    assert refused is not None
    assert not refused.completed
    assert refused.backup_msg == "its Pod is gone"


def test_why_it_failed_is_told_and_stays() -> None:
    failed = plan_copy(asked(), launcher(m.DISK_COPY_FAILED, message="full", ended_unix_ms=5), THERE).status
    assert failed is not None
    assert (failed.failed, failed.backup_msg) == (True, "full")
    for told in ({"failed": True, "backup_msg": "full"}, {"completed": True}):
        again = plan_copy(asked(**told), launcher(), THERE)
        assert (again.step, again.status) == (CopyStep.NOTHING, BackupStatus(backup_name="snap", **told))


def test_a_launcher_that_has_lost_a_copy_does_not_make_another_moment() -> None:
    told = plan_copy(asked(start_timestamp="2023-11-14T22:13:20Z"), launcher(), THERE)
    assert told.step is CopyStep.NOTHING
    assert told.status is not None
    assert told.status.failed


def test_the_launcher_is_told_which_targets_are_devices() -> None:
    vmi = asked()
    info = ClaimInfo(claim_name="c", volume_mode="Block")
    vmi.status.volume_status = [VolumeStatus(name="root-copy-x", target="", persistent_volume_claim_info=info)]
    made = make_request(vmi, REQUEST)
    assert made == m.BeginDiskCopyRequest(
        id="snap", disks=[m.CopiedDisk(volume="root", target="root-copy-x", block=True)]
    )


def test_a_time_beyond_the_calendar_is_none() -> None:
    told = plan_copy(asked(), launcher(m.DISK_COPY_ACTIVE, started_unix_ms=1 << 63), THERE).status
    assert told is not None
    assert told.start_timestamp is None


BACKUP = DiskCopyRequest(
    name="snap",
    volumes=[CopiedVolume(volume_name="root")],
    backup=BackupOrder(
        target="t", directory="web/b-1", prefix="b", checkpoint="b-1", since="b-0", kept_checkpoints=["b-0"]
    ),
)


def test_a_backup_begins_when_its_claim_is_there_and_has_all_that_was_ordered() -> None:
    status = launcher()
    status.backs_up = True
    assert plan_copy(asked(BACKUP), status, ()).step is CopyStep.NOTHING
    assert plan_copy(asked(BACKUP), status, {"t"}).step is CopyStep.BEGIN
    made = make_request(asked(BACKUP), BACKUP)
    assert [each.volume for each in made.disks] == ["root"]
    order = made.backup
    assert (order.target, order.directory, order.name, order.vm) == ("t", "web/b-1", "b", "web")
    assert (order.checkpoint, order.base, list(order.keep), order.skip_quiesce) == ("b-1", "b-0", ["b-0"], False)
    assert not make_request(asked(), REQUEST).HasField("backup")


def test_a_launcher_that_writes_no_backups_fails_it_with_the_remedy() -> None:
    told = plan_copy(asked(BACKUP), launcher(), {"t"}).status
    assert told is not None
    assert told.failed
    assert "writes no backups" in (told.backup_msg or "")


@pytest.mark.parametrize(("incremental", "type_"), [(True, "Incremental"), (False, "Full")])
def test_of_a_whole_backup_its_type_is_told_and_why_it_has_all(incremental: bool, type_: str) -> None:
    why = "" if incremental else "disk root is not known"
    more = {"started_unix_ms": 1_700_000_000_000, "incremental": incremental, "full_because": why, "percent": 100}
    told = plan_copy(asked(BACKUP), launcher(m.DISK_COPY_COMPLETE, **more), {"t"}).status
    assert told is not None
    assert (told.completed, told.backup_type, told.checkpoint_name) == (True, type_, "b-1")
    assert told.backup_msg == (why or None)
