"""The series of VMIs: how each is, where it is reached, and whether it can leave its node."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.metrics.vmi_series import TABLE, VmiTeller
from kvedge.resources.codec import JsonObject
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import bridged, vmi_with

BASE = {"node": "n1", "namespace": "default", "name": "web"}
MIGRATABLE = {"conditions": [{"type": "LiveMigratable", "status": "True"}]}


def vmi(spec: JsonObject | None = None, metadata: JsonObject | None = None, **status: Any) -> VirtualMachineInstance:
    return vmi_with(spec, {"phase": "Running", "nodeName": "n1", **status}, uid="u", **(metadata or {}))


def told(of: VirtualMachineInstance, name: str, default: str = "None") -> list[tuple[dict[str, str], float]]:
    """Labels besides those of the VMI, and values."""
    teller = VmiTeller(default, {"m-uid": "m"})
    found = [each for each in teller.tell(of) if each.name == name]
    return [({key: text for key, text in each.labels.items() if key not in BASE}, each.value) for each in found]


def test_a_vmi_is_told_of_with_its_phase_its_system_and_its_pod() -> None:
    metadata = {
        "annotations": {"vm.kubevirt.io/os": "debian", "kubevirt.io/cluster-instancetype-name": "u1.small"},
        "labels": {"kubevirt.io/outdatedLauncherImage": ""},
    }
    guest = {"name": "Debian", "kernelRelease": "6.1", "machine": "x86_64", "versionId": "12"}
    of = vmi(metadata=metadata, guestOSInfo=guest, machine={"type": "pc-q35-7.2"})
    labels = {
        "phase": "running",
        "os": "debian",
        "workload": "<none>",
        "flavor": "<none>",
        "instance_type": "u1.small",
        "preference": "<none>",
        "guest_os_kernel_release": "6.1",
        "guest_os_machine": "pc-q35-7.2",
        "guest_os_arch": "x86_64",
        "guest_os_name": "Debian",
        "guest_os_version_id": "12",
        "outdated": "true",
        "vmi_pod": launcher_pod_name(of),
        "evictable": "true",
    }
    assert told(of, "kubevirt_vmi_info") == [(labels, 1)]


def test_a_guest_that_has_moved_is_in_the_pod_that_it_came_to() -> None:
    state = {"targetNode": "n1", "targetPod": "virt-launcher-web-new", "completed": True}
    assert told(vmi(migrationState=state), "kubevirt_vmi_info")[0][0]["vmi_pod"] == "virt-launcher-web-new"
    failed = vmi(migrationState=state | {"failed": True})
    assert told(failed, "kubevirt_vmi_info")[0][0]["vmi_pod"] == launcher_pod_name(failed)
    assert told(vmi(phase="Succeeded"), "kubevirt_vmi_info")[0][0]["vmi_pod"] == ""


@pytest.mark.parametrize(
    ("own", "default", "status", "stuck"),
    [
        (None, "None", {}, 0),
        (None, "LiveMigrate", {}, 1),
        (None, "LiveMigrate", MIGRATABLE, 0),
        ("LiveMigrate", "None", {}, 1),
        ("LiveMigrateIfPossible", "None", {}, 0),
        ("None", "LiveMigrate", {}, 0),
    ],
    ids=["goes off", "should move", "can move", "its own word", "if it can", "its own word against the default"],
)
def test_a_guest_that_should_move_and_cannot_is_not_evictable(
    own: str | None, default: str, status: JsonObject, stuck: int
) -> None:
    of = vmi({"evictionStrategy": own} if own else {}, **status)
    assert told(of, "kubevirt_vmi_non_evictable", default) == [({}, stuck)]
    assert told(of, "kubevirt_vmi_info", default)[0][0]["evictable"] == ("false" if stuck else "true")


def test_addresses_are_told_and_nics_without_any_name_are_left_out() -> None:
    nics = [{"name": "default", "ipAddress": "10.0.0.2", "interfaceName": "eth0"}, {"interfaceName": "lo"}, {}]
    found = told(vmi(interfaces=nics), "kubevirt_vmi_status_addresses")
    assert [(labels["address"], labels["interface_name"], labels["type"]) for labels, _ in found] == [
        ("10.0.0.2", "eth0", "ExternalInterface"),
        ("", "lo", "SystemInterface"),
    ]


@pytest.mark.parametrize(
    ("end", "outcome"), [({}, ""), ({"completed": True}, "succeeded"), ({"completed": True, "failed": True}, "failed")]
)
def test_the_last_migration_is_told_with_its_name_and_outcome(end: JsonObject, outcome: str) -> None:
    times = {"startTimestamp": "2026-01-02T03:04:05Z", "endTimestamp": "2026-01-02T03:04:07Z"}
    of = vmi(migrationState={"migrationUid": "m-uid", **times, **end})
    assert told(of, "kubevirt_vmi_migration_start_time_seconds") == [({"migration_name": "m"}, 1767323045)]
    ended = {"migration_name": "m", "status": outcome}
    assert told(of, "kubevirt_vmi_migration_end_time_seconds") == [(ended, 1767323047)]


def test_all_that_is_told_stands_in_the_table() -> None:
    moment = "2026-01-02T03:04:05Z"
    of = vmi(
        bridged(),
        interfaces=[{"name": "default"}],
        memory={"memoryOverhead": "100Mi"},
        migrationState={"startTimestamp": moment, "endTimestamp": moment},
    )
    assert {each.name for each in VmiTeller("None", {}).tell(of)} == TABLE.keys()
    assert told(of, "kubevirt_vmi_launcher_memory_overhead_bytes") == [({}, 100 << 20)]
