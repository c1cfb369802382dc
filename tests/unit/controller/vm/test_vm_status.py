"""What `kubectl get vm` and `kubectl wait` see."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kvedge.controller.kubevirt.condition_rules import with_condition
from kvedge.controller.vm.vm_status import VmView, has_changes_to_come, next_status, printable_status
from kvedge.controller.vm.vmi_template import template_hash, vmi_from_vm
from kvedge.resources.codec import decode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.vm import StartFailure, VirtualMachine
from kvedge.resources.types.vmi import PodRoom, VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from tests.support.builders import NOW, a_vm, a_vmi
from tests.support.migrating import a_migrating_vmi


def seen(vm: VirtualMachine, vmi: VirtualMachineInstance | None, **more) -> VmView:
    return VmView(vm, vmi, vm.status.start_failure, (), vm.run_strategy, **more)


def having(vmi: VirtualMachineInstance, type_: str, status: str, reason: str = "") -> VirtualMachineInstance:
    vmi.status.conditions = [*vmi.status.conditions, Condition(type=type_, status=status, reason=reason)]
    return vmi


@pytest.mark.parametrize("phase", ["", "Pending", "Scheduling", "Scheduled"])
def test_a_vm_whose_vmi_does_not_run_yet_is_starting(phase):
    assert printable_status(seen(a_vm(), a_vmi(phase))) == "Starting"


@pytest.mark.parametrize(
    ("type_", "reason", "word"),
    [
        ("PodScheduled", "Unschedulable", "ErrorUnschedulable"),
        ("Synchronized", "ErrImagePull", "ErrImagePull"),
        ("Synchronized", "ImagePullBackOff", "ImagePullBackOff"),
        ("Synchronized", "FailedPvcNotFound", "ErrorPvcNotFound"),
        ("Synchronized", "FailedCreate", "Starting"),
        ("PodScheduled", "SchedulerError", "Starting"),
    ],
)
def test_what_keeps_a_vm_from_starting_is_named(type_, reason, word):
    assert printable_status(seen(a_vm(), having(a_vmi("Scheduling"), type_, "False", reason))) == word


WORDS = [
    ("Running", a_vm(), a_vmi("Running")),
    ("Paused", a_vm(), having(a_vmi("Running"), "Paused", "True")),
    ("Migrating", a_vm(), a_migrating_vmi(start_timestamp="2026-01-02T03:00:00Z")),
    ("Migrating", a_vm(), having(a_migrating_vmi(start_timestamp="2026-01-02T03:00:00Z"), "Paused", "True")),
    ("Running", a_vm(), a_migrating_vmi(start_timestamp=None)),
    ("Running", a_vm(), a_migrating_vmi(start_timestamp="2026-01-02T03:00:00Z", completed=True)),
    ("Stopping", a_vm(), a_vmi("Running", deleting=True)),
    ("Stopping", a_vm(), a_vmi("Pending", deleting=True)),
    ("Stopped", a_vm("Manual"), a_vmi("Succeeded")),
    ("Stopped", a_vm("Halted"), None),
    ("Unknown", a_vm(), a_vmi("Unknown")),
    ("CrashLoopBackOff", a_vm(start_failure=StartFailure(consecutive_fail_count=1)), None),
    ("CrashLoopBackOff", a_vm(start_failure=StartFailure(consecutive_fail_count=1)), a_vmi("Failed")),
    ("Starting", a_vm(start_failure=StartFailure(consecutive_fail_count=1)), a_vmi("Pending")),
    ("Stopped", a_vm("Manual", start_failure=StartFailure(consecutive_fail_count=1)), None),
]


@pytest.mark.parametrize(("word", "vm", "vmi"), WORDS, ids=[f"{i}-{w}" for i, (w, _, _) in enumerate(WORDS)])
def test_the_printable_status_follows_kubevirts_table(word, vm, vmi):
    assert printable_status(seen(vm, vmi)) == word


def test_a_vm_that_is_deleted_is_terminating_before_anything_else():
    vm = a_vm()
    vm.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert printable_status(seen(vm, a_vmi("Running"))) == "Terminating"


def test_a_delete_in_flight_is_shown_before_the_server_confirms_it():
    assert printable_status(seen(a_vm("Halted"), a_vmi("Running"), stopping=True)) == "Stopping"


def test_without_a_vmi_the_vm_is_neither_created_nor_ready():
    status = next_status(seen(a_vm("Halted"), None), NOW)
    ready = condition(status.conditions, "Ready")
    assert not status.created
    assert not status.ready
    assert ready is not None
    assert (ready.status, ready.reason, ready.message) == ("False", "VMINotExists", "VMI does not exist")


def test_a_ready_vmi_makes_a_ready_vm():
    status = next_status(seen(a_vm(), having(a_vmi("Running"), "Ready", "True")), NOW)
    assert status.created
    assert status.ready
    assert status.printable_status == "Running"


def test_conditions_of_the_vmi_are_copied_and_go_with_them():
    vm = a_vm()
    vm.status = next_status(seen(vm, having(a_vmi("Running"), "AgentConnected", "True")), NOW)
    assert condition(vm.status.conditions, "AgentConnected") is not None
    vm.status = next_status(seen(vm, a_vmi("Running")), NOW)
    assert condition(vm.status.conditions, "AgentConnected") is None


def test_a_condition_keeps_its_time_until_its_status_changes():
    vm = a_vm("Halted")
    vm.status = next_status(seen(vm, None), NOW)
    vm.status = next_status(seen(vm, a_vmi("Pending")), NOW + timedelta(hours=1))
    ready = condition(vm.status.conditions, "Ready")
    assert ready is not None
    assert ready.reason == "GuestNotRunning"
    assert ready.last_transition_time == "2026-01-02T03:04:05Z"
    later = next_status(seen(vm, having(a_vmi("Running"), "Ready", "True")), NOW + timedelta(hours=2))
    assert later.conditions[0].last_transition_time == "2026-01-02T05:04:05Z"


def test_a_status_that_is_up_to_date_stays_as_it_is():
    vm = a_vm()
    vmi = having(a_vmi("Running"), "Ready", "True")
    vm.status = next_status(seen(vm, vmi), NOW)
    assert next_status(seen(vm, vmi), NOW + timedelta(days=1)) == vm.status


def test_a_changed_template_asks_for_a_restart_of_a_running_guest_only():
    vm = a_vm()
    vmi = vmi_from_vm(vm, paused=False)
    vmi.status.phase = "Running"
    assert vm.spec.template is not None
    vm.spec.template.spec.hostname = "another"
    vm.metadata.generation = 2
    restart = condition(next_status(seen(vm, vmi), NOW).conditions, "RestartRequired")
    assert restart is not None
    assert restart.message == "a non-live-updatable field was changed in the template spec"
    assert condition(next_status(seen(vm, None), NOW).conditions, "RestartRequired") is None


def test_a_pod_that_is_too_small_is_no_change_that_comes_with_the_next_start() -> None:
    vm = a_vm()
    vmi = vmi_from_vm(vm, paused=False)
    vmi.status.phase, vmi.status.node_name = "Running", "n1"
    vmi.spec.domain = decode(DomainSpec, {"memory": {"guest": "3Gi"}})
    vmi.status.pod_room = PodRoom(node="n1", vcpus=1, memory="1Gi", reason="Infeasible", message="too small")
    vm.status = next_status(seen(vm, vmi), NOW)
    restart = condition(vm.status.conditions, "RestartRequired")
    assert restart is not None
    assert (restart.reason, has_changes_to_come(vm)) == ("PodTooSmall", False)
    assert vm.spec.template is not None
    vm.spec.template.spec.hostname = "another"
    vm.metadata.generation = 2
    vm.status = next_status(seen(vm, vmi), NOW)
    assert has_changes_to_come(vm)


def test_a_change_of_the_run_strategy_alone_asks_for_no_restart():
    vm = a_vm()
    vmi = vmi_from_vm(vm, paused=False)
    vm.spec.run_strategy, vm.metadata.generation = "Manual", 2
    assert condition(next_status(seen(vm, vmi), NOW).conditions, "RestartRequired") is None


def test_generations_tell_which_template_runs():
    vm = a_vm()
    vmi = vmi_from_vm(vm, paused=False)
    vm.metadata.generation = 5
    status = next_status(seen(vm, vmi), NOW)
    assert (status.observed_generation, status.desired_generation) == (1, 5)


def test_fields_of_other_writers_are_left_alone():
    status = next_status(seen(a_vm(snapshot_in_progress="snap"), None), NOW)
    assert status.snapshot_in_progress == "snap"


def test_a_vm_says_which_volumes_a_snapshot_would_hold():
    vm = a_vm()
    assert vm.spec.template is not None
    volumes = [
        {"name": "root", "dataVolume": {"name": "root"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "layer", "ephemeral": {"persistentVolumeClaim": {"claimName": "golden"}}},
        {"name": "tools", "containerDisk": {"image": "tools:1"}},
    ]
    vm.spec.template.spec.volumes = [decode(Volume, each) for each in volumes]
    text = "Snapshot is not supported for this volumeSource type [{}]"
    assert next_status(seen(vm, None), NOW).volume_snapshot_statuses == [
        {"name": "root", "enabled": True},
        {"name": "data", "enabled": True},
        {"name": "layer", "enabled": False, "reason": text.format("layer")},
        {"name": "tools", "enabled": False, "reason": text.format("tools")},
    ]


def test_a_hash_follows_the_templates_spec_only():
    vm, same = a_vm(), a_vm()
    assert same.spec.template is not None
    same.spec.template.metadata.labels = {"a": "b"}
    assert template_hash(vm) == template_hash(same)
    same.spec.template.spec.hostname = "x"
    assert template_hash(vm) != template_hash(same)


def test_a_condition_takes_the_time_that_it_brings_along_only_when_its_status_changes():
    old = Condition(type="A", status="True", last_transition_time="2025-01-01T00:00:00Z")
    brought = Condition(type="A", status="False", last_transition_time="2025-06-01T00:00:00Z")
    assert with_condition([old], brought, NOW)[0].last_transition_time == "2025-06-01T00:00:00Z"
    same = Condition(type="A", status="True", reason="B", last_transition_time="2025-06-01T00:00:00Z")
    assert with_condition([old], same, NOW)[0].last_transition_time == "2025-01-01T00:00:00Z"
