"""How far a dump is, as the handler sees it: from its file in the Pod to the word of its end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.handler.volumes.hotplug_plan import (
    HotplugSeen,
    plan_hand_over,
    plan_take_back,
    start_gate,
    volume_entries,
    wishes_of,
)
from kvedge.handler.volumes.memory_dump_plan import DumpOutcome, DumpStep, plan_dumps
from kvedge.resources.codec import decode
from kvedge.resources.types.vmi import MemoryDumpVolumeStatus, VirtualMachineInstance, VolumeStatus
from kvedge.rpc import launcher_pb2 as pb

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FILE = "web-dumps-20260102-030405.memory.dump"
ACTIVE, COMPLETE, FAILED = pb.MEMORY_DUMP_STATE_ACTIVE, pb.MEMORY_DUMP_STATE_COMPLETE, pb.MEMORY_DUMP_STATE_FAILED


def vmi(phase: str = "AttachedToNode", file: str = "", *, wanted: bool = True) -> VirtualMachineInstance:
    entry: dict[str, Any] = {
        "name": "dumps",
        "target": "",
        "phase": phase,
        "persistentVolumeClaimInfo": {"claimName": "dumps"},
        "hotplugVolume": {"attachPodName": "hp", "attachPodUID": "pod-1"},
    }
    if file:
        entry["memoryDumpVolume"] = {"claimName": "dumps", "targetFileName": file, "startTimestamp": "then"}
    volumes = [{"name": "dumps", "memoryDump": {"claimName": "dumps", "hotpluggable": True}}] if wanted else []
    document = {
        "metadata": {"name": "web", "uid": "u"},
        "spec": {"domain": {"memory": {"guest": "1Gi"}}, "volumes": volumes},
        "status": {"volumeStatus": [entry]},
    }
    return decode(VirtualMachineInstance, document)


def status(dump: str = "", state: pb.MemoryDumpState = ACTIVE, message: str = "") -> pb.DomainStatus:
    found = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING)
    if dump:
        found.memory_dump.CopyFrom(pb.MemoryDump(id=dump, state=state, message=message))
    return found


def entry(of: VirtualMachineInstance, seen: HotplugSeen, told: pb.DomainStatus | None = None) -> VolumeStatus:
    (found,) = volume_entries(of, told or status(), seen, of.status.volume_status, NOW)
    return found


@pytest.mark.parametrize(
    ("phase", "handed"),
    [("Bound", 0), ("AttachedToNode", 1), ("MountedToPod", 1), ("MemoryDumpInProgress", 0), ("MemoryDumpFailed", 0)],
)
def test_a_dump_gets_one_file_and_no_second_one(phase: str, handed: int) -> None:
    found = plan_hand_over(vmi(phase), ())
    assert [item.dump_bytes for item in found] == [(1 << 30) + (100 << 20)] * handed


def test_a_dump_is_no_disk_that_a_launcher_is_told_of_or_a_guest_waits_for() -> None:
    assert wishes_of(vmi()) == frozenset()
    assert start_gate(vmi(), 1000).is_open


def test_a_dump_whose_file_is_in_the_pod_is_named_before_it_begins() -> None:
    assert entry(vmi(), HotplugSeen()).phase == "AttachedToNode"
    found = entry(vmi(), HotplugSeen(frozenset({"dumps"})))
    assert (found.phase, found.reason) == ("MemoryDumpInProgress", "VolumeMountedToPod")
    assert found.message == "Memory dump Volume dumps is attached, getting memory dump"
    assert found.memory_dump_volume == MemoryDumpVolumeStatus(
        claim_name="dumps", start_timestamp="2026-01-02T03:04:05Z", target_file_name=FILE
    )


@pytest.mark.parametrize(
    ("word", "step", "failure"),
    [
        (status(), DumpStep.BEGIN, ""),
        (status("another", COMPLETE), DumpStep.BEGIN, ""),
        (status(FILE, ACTIVE), DumpStep.WAIT, ""),
        (status(FILE, COMPLETE), DumpStep.FINISH, ""),
        (status(FILE, FAILED, "no room"), DumpStep.DISCARD, "no room"),
        (status(FILE, FAILED), DumpStep.DISCARD, "the launcher says no more"),
    ],
    ids=["not begun", "one before", "under way", "written", "failed", "failed silently"],
)
def test_a_dump_goes_on_by_the_launcher_s_word(word: pb.DomainStatus, step: DumpStep, failure: str) -> None:
    (found,) = plan_dumps(vmi("MemoryDumpInProgress", FILE), word)
    assert (found.volume, found.file, found.pod_uid) == ("dumps", FILE, "pod-1")
    assert (found.step, found.failure) == (step, failure)


@pytest.mark.parametrize("phase", ["AttachedToNode", "MemoryDumpCompleted", "MemoryDumpFailed"])
def test_nothing_is_done_before_a_dump_has_its_name_or_after_its_end(phase: str) -> None:
    assert list(plan_dumps(vmi(phase, FILE), status(FILE, COMPLETE))) == []


def test_the_end_of_a_dump_is_told_once() -> None:
    of = vmi("MemoryDumpInProgress", FILE)
    seen = frozenset({"dumps"})
    assert entry(of, HotplugSeen(seen)).phase == "MemoryDumpInProgress"
    done = entry(of, HotplugSeen(seen, dumps={"dumps": DumpOutcome()}))
    assert (done.phase, done.message) == (
        "MemoryDumpCompleted",
        "Memory dump to Volume dumps has completed successfully",
    )
    assert done.memory_dump_volume == MemoryDumpVolumeStatus(
        claim_name="dumps", start_timestamp="then", end_timestamp="2026-01-02T03:04:05Z", target_file_name=FILE
    )
    failed = entry(of, HotplugSeen(seen, dumps={"dumps": DumpOutcome("no room")}))
    assert (failed.phase, failed.message) == ("MemoryDumpFailed", "Memory dump to pvc dumps failed: no room")
    ended = vmi("MemoryDumpCompleted", FILE)
    assert entry(ended, HotplugSeen(seen, dumps={"dumps": DumpOutcome("late")})).phase == "MemoryDumpCompleted"


def test_a_file_that_is_written_is_not_taken_back() -> None:
    of = vmi("MemoryDumpInProgress", FILE, wanted=False)
    assert plan_take_back(of, status(FILE, ACTIVE), ["dumps"]) == []
    assert plan_take_back(of, status(FILE, FAILED), ["dumps"]) == ["dumps"]
    gone = entry(of, HotplugSeen(is_followed=True))
    assert (gone.phase, gone.reason) == ("UnMountedFromPod", "VolumeUnMountedFromPod")


def test_a_dump_that_begins_in_the_second_of_the_one_before_has_a_name_of_its_own() -> None:
    last = status(FILE, COMPLETE)
    found = entry(vmi("MountedToPod"), HotplugSeen(frozenset({"dumps"})), last)
    assert found.memory_dump_volume is not None
    name = found.memory_dump_volume.target_file_name
    assert name == "web-dumps-20260102-030406.memory.dump"
    (dump,) = plan_dumps(vmi("MemoryDumpInProgress", name), last)
    assert dump.step is DumpStep.BEGIN, "what the launcher says is of the one before"
