# Tests: kvedge/handler/volumes/hotplug_plan.py, kvedge/handler/volumes/hotplug_volumes.py
"""Hotplugged volumes on a node: what is handed over and taken back, what their entries say, whether a guest waits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.handler.volumes.hotplug_plan import (
    START_WITHOUT_SECONDS,
    TOLD_SECONDS,
    HotplugSeen,
    as_coming,
    find_absent,
    hotplug_troubles,
    plan_hand_over,
    plan_take_back,
    start_gate,
    volume_entries,
    wishes_of,
)
from kvedge.resources.codec import decode
from kvedge.resources.disks.moved_places import moved_place
from kvedge.resources.disks.vm_backups import is_directory_place, target_name
from kvedge.resources.names import START_WITHOUT_VOLUMES
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import (
    BackupOrder,
    CopiedVolume,
    DiskCopyRequest,
    UtilityVolume,
    VirtualMachineInstance,
    VolumeStatus,
)
from kvedge.rpc import launcher_pb2 as pb

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def vmi(phases: dict[str, str], *gone: str, uid: str = "pod-1", **metadata: Any) -> VirtualMachineInstance:
    """A VMI with a hotplugged volume for each phase; those that are gone have an entry only."""
    return decode(
        VirtualMachineInstance,
        {
            "metadata": {"name": "v", "namespace": "n", "uid": "u", **metadata},
            "spec": {
                "domain": {"devices": {}},
                "volumes": [
                    {"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}}
                    for name in phases
                    if name not in gone
                ],
            },
            "status": {
                "volumeStatus": [
                    {
                        "name": name,
                        "target": "",
                        "phase": phase,
                        "reason": "before",
                        "hotplugVolume": {"attachPodName": "hp", "attachPodUID": uid},
                    }
                    for name, phase in phases.items()
                ]
            },
        },
    )


def domain(*disks: str, troubles: list[pb.DiskTrouble] | None = None) -> pb.DomainStatus:
    targets = [pb.DiskTarget(name=name, target=f"sd{name}") for name in disks]
    return pb.DomainStatus(disks=targets, disk_troubles=troubles or [])


def entry(of: VirtualMachineInstance, status: pb.DomainStatus, seen: HotplugSeen | None) -> VolumeStatus:
    (found,) = volume_entries(of, status, seen, of.status.volume_status, NOW)
    return found


def seen(*present: str, is_followed: bool = True, **troubles: str) -> HotplugSeen:
    return HotplugSeen(frozenset(present), troubles, is_followed)


def test_volumes_with_a_ready_attachment_pod_that_are_not_there_are_handed_over() -> None:
    phases = {"a": "AttachedToNode", "b": "AttachedToNode", "c": "Bound", "d": "Ready", "gone": "Ready"}
    assert [item.name for item in plan_hand_over(vmi(phases, "gone"), {"b"})] == ["a", "d"]
    assert plan_hand_over(vmi(phases, uid=""), ()) == []


def test_a_guest_that_is_to_come_gets_what_it_has_from_the_pods_of_its_target_alone() -> None:
    given = vmi({"a": "Ready", "b": "Ready", "c": "Bound"})
    given.status.migration_state = MigrationState(
        migration_uid="m", target_attachment_pods={"a": "new-a", "b": "new-b"}, target_attachment_pod_uid="new-a"
    )
    found = as_coming(given)
    assert {item.name: item.pod_uid for item in plan_hand_over(found, ())} == {"a": "new-a", "b": "new-b"}
    # The VMI itself still names those of its source.
    assert {item.pod_uid for item in plan_hand_over(given, ())} == {"pod-1"}
    assert find_absent(given, HotplugSeen(frozenset({"a"}), {"b": "Volume b: it waits"})) == "Volume b: it waits"
    assert find_absent(given, HotplugSeen(frozenset({"a"}))) == "Volume b is not there yet"
    assert find_absent(given, HotplugSeen(frozenset({"a", "b"}))) == ""
    assert find_absent(vmi({"a": "Ready"}), HotplugSeen()) == ""


def test_what_neither_the_vmi_nor_the_domain_has_is_taken_back() -> None:
    of = vmi({"a": "Ready", "gone": "Ready", "held": "Ready"}, "gone", "held")
    assert plan_take_back(of, domain("a", "held"), ["a", "gone", "held", "unknown"]) == ["gone", "unknown"]


def test_a_drive_without_a_medium_holds_no_volume() -> None:
    status = pb.DomainStatus(disks=[pb.DiskTarget(name="cd", target="sda", empty=True)])
    assert plan_take_back(vmi({}), status, ["cd"]) == ["cd"]


@pytest.mark.parametrize(
    ("phase", "attached", "present", "expected", "reason", "message"),
    [
        ("Bound", False, False, "Bound", "before", ""),
        ("AttachedToNode", False, False, "AttachedToNode", "before", ""),
        (
            "AttachedToNode",
            False,
            True,
            "MountedToPod",
            "VolumeMountedToPod",
            "Volume a has been mounted in virt-launcher pod",
        ),
        ("MountedToPod", True, True, "Ready", "VolumeReady", "Successfully attach hotplugged volume a to VM"),
        ("Ready", True, False, "Ready", "VolumeReady", "Successfully attach hotplugged volume a to VM"),
        ("Ready", False, True, "Ready", "before", ""),
    ],
    ids=["no pod yet", "not handed over", "handed over", "attached", "its pod has died", "never falls back"],
)
def test_a_wanted_volume_moves_on(
    phase: str, attached: bool, present: bool, expected: str, reason: str, message: str
) -> None:
    found = entry(vmi({"a": phase}), domain(*(["a"] if attached else [])), seen(*(["a"] if present else [])))
    assert (found.phase, found.reason, found.message) == (expected, reason, message)
    assert found.hotplug_volume is not None, "the controller's part stays"
    assert found.target == ("sda" if attached else "")


@pytest.mark.parametrize(
    ("attached", "present", "is_followed", "expected"),
    [
        (True, True, True, "Ready"),
        (False, True, True, "Ready"),
        (False, False, False, "Ready"),
        (False, False, True, "UnMountedFromPod"),
    ],
    ids=["the guest holds it", "still mounted", "the launcher has not been told", "gone"],
)
def test_a_removed_volume_is_unmounted_once_everything_is_undone(
    attached: bool, present: bool, is_followed: bool, expected: str
) -> None:
    found = entry(
        vmi({"a": "Ready"}, "a"),
        domain(*(["a"] if attached else [])),
        seen(*(["a"] if present else []), is_followed=is_followed),
    )
    assert found.phase == expected
    if expected == "UnMountedFromPod":
        assert found.message == "Volume a has been unmounted from virt-launcher pod"


def test_what_the_controller_ends_is_left_to_it() -> None:
    for phase in ("Detaching", "UnMountedFromPod", "Pending"):
        assert entry(vmi({"a": phase}, "a"), domain(), seen()).phase == phase


def test_a_failed_attach_is_told_with_libvirt_s_words_and_the_phase_stays() -> None:
    trouble = pb.DiskTrouble(name="a", action=pb.DISK_ACTION_ATTACH, message="no more slots", tries=3)
    found = entry(vmi({"a": "MountedToPod"}), domain(troubles=[trouble]), seen("a"))
    assert (found.phase, found.reason) == ("MountedToPod", "VolumeAttachFailed")
    assert found.message == "Volume a cannot be attached: no more slots"
    # It has come after all.
    assert entry(vmi({"a": "MountedToPod"}), domain("a"), seen("a")).phase == "Ready"


def test_a_disk_that_the_guest_holds_is_told_with_the_remedy() -> None:
    trouble = pb.DiskTrouble(name="a", action=pb.DISK_ACTION_DETACH, tries=3, since_unix_ms=1_700_000_000_000)
    found = entry(vmi({"a": "Ready"}, "a"), domain("a", troubles=[trouble]), seen("a"))
    assert (found.phase, found.reason) == ("Ready", "VolumeDetachPending")
    assert found.message == (
        "The guest has not released disk a since 2023-11-14T22:13:20Z; unmount it in the guest and close what uses it,"
        " or restart the VM"
    )


def test_nothing_is_said_where_nothing_was_looked_at() -> None:
    of = vmi({"a": "AttachedToNode"})
    assert volume_entries(of, domain(), None, of.status.volume_status, NOW) == of.status.volume_status


def test_all_troubles_are_told_once_by_volume() -> None:
    trouble = pb.DiskTrouble(name="a", action=pb.DISK_ACTION_ATTACH, message="no")
    assert hotplug_troubles(domain(troubles=[trouble]), seen(b="not there")) == {
        "a": "Volume a cannot be attached: no",
        "b": "not there",
    }
    assert hotplug_troubles(None, None) == {}


def test_a_guest_waits_for_its_volumes_and_says_for_which() -> None:
    waiting = vmi({"a": "Pending", "b": "MountedToPod"})
    assert not start_gate(waiting, 0.0).is_open
    assert start_gate(waiting, 0.0).message == ""
    told = start_gate(waiting, TOLD_SECONDS)
    assert not told.is_open
    assert told.message.startswith("the guest waits for hotplugged volume a (Pending); mend it, remove the volume, or")
    assert not start_gate(waiting, 1e6).is_open, "never without its volume, unless it is asked to"
    assert start_gate(vmi({"a": "Ready", "b": "MountedToPod"}), 0.0).is_open
    assert start_gate(vmi({}), 0.0).is_open


def test_a_guest_that_was_asked_to_starts_without_a_volume_that_does_not_come() -> None:
    asked = vmi({"a": "Pending"}, annotations={START_WITHOUT_VOLUMES: "true"})
    assert not start_gate(asked, START_WITHOUT_SECONDS - 1).is_open
    assert start_gate(asked, START_WITHOUT_SECONDS).is_open


def test_the_launcher_is_told_anew_when_a_volume_comes_is_handed_over_or_goes() -> None:
    states = [vmi({}), vmi({"a": "AttachedToNode"}), vmi({"a": "MountedToPod"}), vmi({"a": "Ready"}, "a")]
    wishes = [wishes_of(state) for state in states]
    assert wishes[0] == wishes[3]
    assert len(set(wishes)) == 3
    assert wishes_of(vmi({"a": "Ready"})) == wishes[2], "Ready alone is no news to the launcher"


def copied(phase: str = "AttachedToNode") -> VirtualMachineInstance:
    """A VMI with one volume that is no disk of its guest: a copy of a disk goes there."""
    made = vmi({"root-copy": phase}, "root-copy")
    made.spec.utility_volumes = [UtilityVolume(name="root-copy", claim_name="kept", type="Backup")]
    made.status.disk_copy = DiskCopyRequest(
        name="snap", volumes=[CopiedVolume(volume_name="root", copy_name="root-copy")]
    )
    return made


def test_what_a_copy_goes_into_is_handed_over_as_one_and_never_becomes_ready() -> None:
    (item,) = plan_hand_over(copied(), ())
    assert (item.name, item.copy) == ("root-copy", "u snap")
    seen = HotplugSeen(frozenset({"root-copy"}), is_followed=True)
    mounted = volume_entries(copied(), domain(), seen, copied().status.volume_status, NOW)
    assert [entry.phase for entry in mounted] == ["MountedToPod"]
    assert volume_entries(copied("MountedToPod"), domain(), seen, mounted, NOW) == mounted


def test_what_a_backup_goes_into_is_handed_over_as_a_directory() -> None:
    name = target_name("0f5c")
    made = vmi({name: "AttachedToNode"}, name)
    made.spec.utility_volumes = [UtilityVolume(name=name, claim_name="usb", type="Backup")]
    order = BackupOrder(target=name, directory="web/b", prefix="b")
    made.status.disk_copy = DiskCopyRequest(name="b", volumes=[CopiedVolume(volume_name="root")], backup=order)
    (item,) = plan_hand_over(made, ())
    assert (item.name, item.is_directory, item.copy) == (name, True, "")
    assert not is_directory_place("root")


def test_a_guest_does_not_wait_for_what_a_copy_goes_into() -> None:
    assert start_gate(copied(), 0.0).is_open


def test_what_a_copy_went_into_is_taken_back_once_nobody_asks_for_it() -> None:
    assert plan_take_back(copied("MountedToPod"), domain(), ["root-copy"]) == []
    assert wishes_of(copied("MountedToPod")) != wishes_of(vmi({"root-copy": "MountedToPod"}, "root-copy"))
    gone = vmi({"root-copy": "MountedToPod"}, "root-copy")
    assert plan_take_back(gone, domain(), ["root-copy"]) == ["root-copy"]
    (entry,) = volume_entries(gone, domain(), HotplugSeen(is_followed=True), gone.status.volume_status, NOW)
    assert entry.phase == "UnMountedFromPod"


PLACE = moved_place("root", "new")


def moving(*, named: str = "old", wanted: bool = True, **more: Any) -> VirtualMachineInstance:
    """A VMI whose disk moves from claim `old` to `new` in place; the new one has an attachment Pod."""
    entry = {"name": PLACE, "target": "", "phase": "AttachedToNode", "hotplugVolume": {"attachPodUID": "pod-1"}} | more
    info = {"sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": "new"}}
    condition = {"type": "VolumesChange", "status": "True", "reason": "InPlace"}
    return decode(
        VirtualMachineInstance,
        {
            "metadata": {"name": "v", "namespace": "n", "uid": "u"},
            "spec": {"domain": {}, "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": named}}]},
            "status": {
                "volumeStatus": [entry],
                "migratedVolumes": [{"volumeName": "root", **info}] if wanted else [],
                "conditions": [condition] if wanted else [],
            },
        },
    )


def test_the_claim_that_a_disk_moves_to_is_handed_over_as_a_whole() -> None:
    (item,) = plan_hand_over(moving(), [])
    assert (item.name, item.pod_uid, item.is_directory) == (PLACE, "pod-1", True)
    (item,) = plan_hand_over(moving(persistentVolumeClaimInfo={"volumeMode": "Block"}), [])
    assert (item.block, item.is_directory) == (True, False)
    # A guest does not wait for it.
    assert start_gate(moving(), TOLD_SECONDS).is_open


def test_a_claim_stays_as_long_as_a_disk_is_there_or_comes_there() -> None:
    copy = pb.DiskCopy(volume="root", place=PLACE)
    copying = pb.DomainStatus(
        disk_move=pb.DiskMove(state=pb.DISK_MOVE_COPYING, disks=[pb.MovingDisk(copy=copy)]),
    )
    failed = pb.DomainStatus(disk_move=pb.DiskMove(state=pb.DISK_MOVE_FAILED, disks=[pb.MovingDisk(copy=copy)]))
    there = pb.DomainStatus(disks=[pb.DiskTarget(name="root", target="vda", place=PLACE)])
    unwanted = moving(wanted=False)
    assert plan_take_back(unwanted, copying, [PLACE]) == []
    assert plan_take_back(unwanted, there, [PLACE]) == []
    assert plan_take_back(unwanted, failed, [PLACE]) == [PLACE]
    # The VMI names it: it stays for the launcher's life.
    assert plan_take_back(moving(named="new", wanted=False), pb.DomainStatus(), [PLACE]) == []


def test_the_claims_entry_says_how_far_the_disk_is() -> None:
    of = moving(phase="MountedToPod")
    status = pb.DomainStatus(disks=[pb.DiskTarget(name="root", target="vda", place=PLACE)])
    (entry,) = volume_entries(of, status, HotplugSeen(frozenset({PLACE})), of.status.volume_status, NOW)
    assert (entry.phase, entry.reason) == ("MountedToPod", "DiskMoved")


def test_what_a_copy_is_written_into_stays_until_the_copy_has_ended() -> None:
    """The VMI's word goes first, and only then the launcher is told: until it has ended it writes a device."""
    gone = vmi({"root-copy": "MountedToPod"}, "root-copy")
    for state in (pb.DISK_COPY_PREPARING, pb.DISK_COPY_ACTIVE):
        going = pb.DomainStatus(disk_copy=pb.DiskCopyJob(id="snap", state=state))
        assert plan_take_back(gone, going, ["root-copy"]) == []
        assert plan_take_back(copied("MountedToPod"), going, ["root-copy", "old"]) == ["old"], "the one that is wanted"
    for state in (pb.DISK_COPY_FAILED, pb.DISK_COPY_COMPLETE):
        ended = pb.DomainStatus(disk_copy=pb.DiskCopyJob(id="snap", state=state))
        assert plan_take_back(gone, ended, ["root-copy"]) == ["root-copy"]
