"""The series of objects together: KubeVirt's list of them, and that one bad object spoils nothing."""

from __future__ import annotations

from typing import Any, Final

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.object_series import TABLE, build_object_metrics
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.resources.codec import decode
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi, vm_of
from tests.unit.api.metrics.test_exposition import read_back

# Of docs/observability/metrics.md of KubeVirt 1.9: all that virt-controller and virt-operator tell of objects, and what
# virt-handler tells beside the figures of guests. What is counted by processes stands in test_role_series.py.
_COUNTERS: Final = """
vm_created_by_pod_total vm_error_status_last_transition_timestamp_seconds
vm_migrating_status_last_transition_timestamp_seconds vm_non_running_status_last_transition_timestamp_seconds
vm_running_status_last_transition_timestamp_seconds vm_starting_status_last_transition_timestamp_seconds
"""
_GAUGES: Final = """
configuration_emulation_enabled info virt_api_ready_status vm_create_date_timestamp_seconds
vm_disk_allocated_size_bytes vm_info vm_labels vm_resource_limits vm_resource_requests vm_vnic_info vmi_info
vmi_launcher_memory_overhead_bytes vmi_migration_end_time_seconds vmi_migration_failed
vmi_migration_start_time_seconds vmi_migration_succeeded vmi_migrations_in_pending_phase
vmi_migrations_in_running_phase vmi_migrations_in_scheduling_phase vmi_migrations_in_unset_phase vmi_non_evictable
vmi_number_of_outdated vmi_status_addresses vmi_vnic_info vmsnapshot_succeeded_timestamp_seconds
vmi_gpu_info
"""
KUBEVIRTS: Final = {
    f"kubevirt_{name}": kind for kind, names in (("counter", _COUNTERS), ("gauge", _GAUGES)) for name in names.split()
}
NOT_THERE: Final = {
    "kubevirt_vmi_gpu_info": "the kubelet is not asked for the UUIDs of its plugins' devices",
    "kubevirt_vm_created_by_pod_total": "deprecated; the newest of kubevirt_vm_create_date_timestamp_seconds tell",
}
OURS: Final = {
    "kubevirt_vmsnapshot_info",
    "kubevirt_vmsnapshot_create_date_timestamp_seconds",
    "kvedge_objects_up",
    "kvedge_objects_left_out",
}


def vmi(name: str, **status: Any) -> VirtualMachineInstance:
    document = small_vmi()
    document["metadata"]["name"] = name
    document["status"] = status
    return decode(VirtualMachineInstance, document)


def test_names_and_types_are_kubevirts_and_those_that_are_absent_have_a_reason() -> None:
    there = {name: row.kind for name, row in TABLE.items() if name not in OURS}
    assert there == {name: kind for name, kind in KUBEVIRTS.items() if name not in NOT_THERE}
    assert NOT_THERE.keys() <= KUBEVIRTS.keys()


def test_an_object_with_a_bad_value_is_counted_and_others_are_told() -> None:
    bad = vmi("bad", phase="Running", memory={"memoryOverhead": "lots"})
    seen = SeenObjects(vmis=[bad, vmi("good", phase="Running")])
    found = read_back(render(build_object_metrics(seen, Configuration())))
    assert [labels["name"] for labels, _ in found["kubevirt_vmi_info"]] == ["good"]
    why = {"resource": "virtualmachineinstances", "error": "QuantityError"}
    assert found["kvedge_objects_left_out"] == [(why, 1.0)]


def test_series_go_with_their_object() -> None:
    vm = decode(VirtualMachine, vm_of(small_vmi()))
    before = read_back(render(build_object_metrics(SeenObjects(vms=[vm]), Configuration())))
    after = read_back(render(build_object_metrics(SeenObjects(), Configuration())))
    assert {name for name in before if name.startswith("kubevirt_vm_")} - after.keys()
    assert {name for name in after if name.startswith("kubevirt_vm_")} == set()


def test_without_objects_there_is_still_who_answers_and_which_kinds_are_known() -> None:
    seen = SeenObjects(known={"virtualmachines": True, "virtualmachinesnapshots": False})
    found = read_back(render(build_object_metrics(seen, Configuration(use_emulation=True))))
    counts = {name for name in TABLE if name.startswith("kubevirt_vmi_migrations_in_")}
    single = {"kubevirt_vmi_number_of_outdated", "kubevirt_info", "kubevirt_virt_api_ready_status"}
    assert found.keys() == counts | single | {"kubevirt_configuration_emulation_enabled", "kvedge_objects_up"}
    assert found["kubevirt_configuration_emulation_enabled"] == [({}, 1.0)]
    up = {labels["resource"]: value for labels, value in found["kvedge_objects_up"]}
    assert up == {"virtualmachines": 1.0, "virtualmachinesnapshots": 0.0}
