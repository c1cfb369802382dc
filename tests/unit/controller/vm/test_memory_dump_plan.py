"""A request for a dump of a guest's memory, from the first word to the last."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vm.memory_dump_plan import DumpPlan, plan_memory_dump
from kvedge.controller.vm.vmi_template import template_hash, vmi_from_vm
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

DISK = {"name": "root", "containerDisk": {"image": "x"}}
DUMP = {"name": "dumps", "memoryDump": {"claimName": "dumps", "hotpluggable": True}}
FILE = "web-dumps-20260102-030405.memory.dump"


def vm(phase: str, *volumes: dict[str, Any], status: dict[str, Any] | None = None, **request: Any) -> VirtualMachine:
    asked = {"claimName": "dumps", "phase": phase, **request}
    return decode(
        VirtualMachine,
        {
            "metadata": {"name": "web", "uid": "u"},
            "spec": {"template": {"spec": {"domain": {}, "volumes": [DISK, *volumes]}}},
            "status": {"memoryDumpRequest": asked, **(status or {})},
        },
    )


def run(*volumes: dict[str, Any], entry: dict[str, Any] | None = None, phase: str = "Running", **status: Any) -> Any:
    found = [] if entry is None else [{"name": "dumps", "target": "", **entry}]
    return decode(
        VirtualMachineInstance,
        {
            "metadata": {"name": "web"},
            "spec": {"domain": {}, "volumes": [DISK, *volumes]},
            "status": {"phase": phase, "volumeStatus": found, **status},
        },
    )


def claim(dump: str = "") -> PersistentVolumeClaim:
    marks = {"annotations": {"kubevirt.io/memory-dump": dump}} if dump else {}
    return decode(PersistentVolumeClaim, {"metadata": {"name": "dumps", **marks}})


def outcome(phase: str) -> dict[str, Any]:
    dump = {"claimName": "dumps", "startTimestamp": "then", "endTimestamp": "now", "targetFileName": FILE}
    return {"phase": phase, "message": "its words", "memoryDumpVolume": dump}


def phase_of(plan: DumpPlan) -> str:
    return "" if plan.request is None else plan.request.phase


def volumes_of(body: Any, *, template: bool = False) -> list[str]:
    spec = body["spec"]["template"]["spec"] if template else body["spec"]
    return [volume["name"] for volume in spec["volumes"]]


def test_without_a_request_nothing_is_done() -> None:
    given = vm("")
    given.status.memory_dump_request = None
    assert plan_memory_dump(given, run(DUMP), None) == DumpPlan()


def test_the_claim_comes_to_the_vm_and_to_its_run() -> None:
    plan = plan_memory_dump(vm("Associating"), run(), claim())
    assert phase_of(plan) == "Associating"
    assert volumes_of(plan.template, template=True) == ["root", "dumps"]
    assert volumes_of(plan.run) == ["root", "dumps"]
    plan = plan_memory_dump(vm("Associating", DUMP), run(DUMP, entry={"phase": "Pending"}), claim())
    assert (phase_of(plan), plan.template, plan.run) == ("InProgress", {}, {})


@pytest.mark.parametrize("phase", ["Associating", "InProgress"])
@pytest.mark.parametrize("own", [None, run(phase="Succeeded"), run(phase="Scheduled")], ids=["none", "ended", "starts"])
def test_a_guest_that_has_ended_has_no_memory(phase: str, own: Any) -> None:
    plan = plan_memory_dump(vm(phase, DUMP), own, claim())
    assert phase_of(plan) == "Failed"
    assert plan.request is not None
    assert "the guest ended" in plan.request.message


def test_another_run_is_not_dumped_in_place_of_the_one_that_was_meant() -> None:
    assert phase_of(plan_memory_dump(vm("InProgress", DUMP), run(), claim())) == "Failed"


@pytest.mark.parametrize(
    ("status", "own", "words"),
    [
        ({"snapshotInProgress": "s"}, run(), 'snapshot "s"'),
        ({"restoreInProgress": "r"}, run(), 'restore "r"'),
        ({}, run(migrationState={"migrationUid": "m"}), "moved to its other node"),
    ],
    ids=["a snapshot", "a restore", "a migration"],
)
def test_a_dump_waits_for_what_was_there_before_it(status: dict[str, Any], own: Any, words: str) -> None:
    plan = plan_memory_dump(vm("Associating", status=status), own, claim())
    assert plan.request is not None
    assert words in plan.request.message
    assert (phase_of(plan), plan.template, plan.run) == ("Associating", {}, {})


def test_what_the_handler_says_is_the_request_s() -> None:
    given = vm("InProgress", DUMP)
    quiet = plan_memory_dump(given, run(DUMP, entry={"phase": "Bound", "reason": "PVCNotReady", "message": "x"}), None)
    assert quiet.request == given.status.memory_dump_request
    entry = {"phase": "Pending", "reason": "FailedPvcNotFound", "message": "PVC dumps not found"}
    told = plan_memory_dump(given, run(DUMP, entry=entry), None).request
    assert told is not None
    assert told.message == "PVC dumps not found"
    going = plan_memory_dump(given, run(DUMP, entry=outcome("MemoryDumpInProgress")), claim()).request
    assert going is not None
    assert (going.phase, going.start_timestamp, going.end_timestamp) == ("InProgress", "then", None)
    done = plan_memory_dump(given, run(DUMP, entry=outcome("MemoryDumpCompleted")), claim()).request
    assert done is not None
    assert (done.phase, done.end_timestamp, done.file_name) == ("Unmounting", "now", FILE)
    failed = plan_memory_dump(given, run(DUMP, entry=outcome("MemoryDumpFailed")), claim()).request
    assert failed is not None
    assert (failed.phase, failed.end_timestamp, failed.message) == ("Failed", "now", "its words")


def test_the_claim_leaves_the_run_and_says_what_is_in_it() -> None:
    given = vm("Unmounting", DUMP, fileName=FILE)
    plan = plan_memory_dump(given, run(DUMP, entry=outcome("MemoryDumpCompleted")), claim("old"))
    assert (phase_of(plan), plan.annotation, plan.template) == ("Unmounting", FILE, {})
    assert volumes_of(plan.run) == ["root"]
    left = run(entry=outcome("Detaching"))
    assert phase_of(plan_memory_dump(given, left, claim(FILE))) == "Unmounting"
    assert phase_of(plan_memory_dump(given, run(), claim())) == "Unmounting", "the annotation comes first"
    assert phase_of(plan_memory_dump(given, run(), claim(FILE))) == "Completed"
    assert phase_of(plan_memory_dump(given, None, None)) == "Completed"


def test_a_failed_dump_is_said_of_the_claim_and_leaves_the_run() -> None:
    plan = plan_memory_dump(vm("Failed", DUMP), run(DUMP, entry=outcome("MemoryDumpFailed")), claim())
    assert (phase_of(plan), plan.annotation) == ("Failed", "Memory dump failed")
    assert volumes_of(plan.run) == ["root"]


def test_what_is_left_of_a_failed_dump_goes_before_the_next_one() -> None:
    given = vm("Associating", DUMP)
    plan = plan_memory_dump(given, run(DUMP, entry=outcome("MemoryDumpFailed")), claim())
    assert (phase_of(plan), volumes_of(plan.run)) == ("Associating", ["root"])
    plan = plan_memory_dump(given, run(entry=outcome("UnMountedFromPod")), claim())
    assert (phase_of(plan), plan.run) == ("Associating", {})
    assert volumes_of(plan_memory_dump(given, run(), claim()).run) == ["root", "dumps"]


def test_a_completed_dump_stays_as_it_is() -> None:
    given = vm("Completed", DUMP, fileName=FILE)
    assert plan_memory_dump(given, run(), claim(FILE)) == DumpPlan(given.status.memory_dump_request)


def test_a_claim_is_let_go_of() -> None:
    plan = plan_memory_dump(vm("Completed", DUMP, remove=True), run(), claim())
    assert (phase_of(plan), plan.template) == ("Dissociating", {})
    given = vm("Dissociating", DUMP, remove=True)
    plan = plan_memory_dump(given, run(DUMP, entry=outcome("MemoryDumpInProgress")), claim())
    assert volumes_of(plan.template, template=True) == ["root"]
    assert volumes_of(plan.run) == ["root"]
    assert phase_of(plan) == "Dissociating"
    assert phase_of(plan_memory_dump(vm("Dissociating", remove=True), run(entry={"phase": "Detaching"}), None)) != ""
    assert plan_memory_dump(vm("Dissociating", remove=True), run(), None).request is None


def test_a_run_is_not_changed_while_its_guest_moves() -> None:
    own = run(DUMP, entry=outcome("MemoryDumpCompleted"), migrationState={"migrationUid": "m"})
    assert plan_memory_dump(vm("Unmounting", DUMP, fileName=FILE), own, claim(FILE)).run == {}


def test_a_new_run_has_no_claim_of_dumps_and_the_vm_needs_no_restart_for_one() -> None:
    with_dump, without = vm("Completed", DUMP), vm("Completed")
    assert [volume.name for volume in vmi_from_vm(with_dump, paused=False).spec.volumes] == ["root"]
    assert template_hash(with_dump) == template_hash(without)
