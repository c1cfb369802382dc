"""The series of VMs: KubeVirt's names and labels, and the state that a printable status is."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.metrics.label_choice import LabelChoice
from kvedge.api.metrics.vm_series import _GROUP_OF, TABLE, tell_vm
from kvedge.controller.vm.vm_status import _PRINTABLE
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import small_vmi, vm_of

WEB = {"name": "small", "namespace": "default"}
SINCE = "kubevirt_vm_{}_status_last_transition_timestamp_seconds"


CLAIMS = {
    ("default", name): decode(
        PersistentVolumeClaim,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumeMode": mode, "resources": {"requests": {"storage": size}}},
        },
    )
    for name, mode, size in (("root", "Block", "10Gi"), ("data", "Filesystem", "11Gi"))
}


def vm(status: JsonObject | None = None, **domain: Any) -> VirtualMachine:
    document = vm_of(small_vmi())
    document["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    document["status"] = status or {}
    document["spec"]["template"]["spec"]["domain"] |= domain
    return decode(VirtualMachine, document)


def told(of: VirtualMachine, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels besides those of the VM, and values."""
    found = [each for each in tell_vm(CLAIMS, LabelChoice(), of) if each.name == name]
    assert all(each.labels["name"] == "small" and each.labels["namespace"] == "default" for each in found)
    return [({key: text for key, text in each.labels.items() if key not in WEB}, each.value) for each in found]


def test_a_vm_is_told_of_with_its_state_its_machine_and_its_types() -> None:
    of = vm({"printableStatus": "CrashLoopBackOff"}, machine={"type": "q35"})
    of.spec.template.metadata.annotations["vm.kubevirt.io/os"] = "debian"  # type: ignore[union-attr]
    document = vm_of(small_vmi(), instancetype={"name": "u1.small"})
    of.spec.instancetype = decode(VirtualMachine, document).spec.instancetype
    labels = {
        "os": "debian",
        "workload": "<none>",
        "flavor": "<none>",
        "machine_type": "q35",
        "instance_type": "u1.small",
        "preference": "<none>",
        "status": "crashloopbackoff",
        "status_group": "error",
    }
    assert told(of, "kubevirt_vm_info") == [(labels, 1)]
    assert told(of, "kubevirt_vm_create_date_timestamp_seconds") == [({}, 1767323045)]


def test_each_status_that_a_vm_can_have_is_of_a_group() -> None:
    assert {status for status, _ in _PRINTABLE} == _GROUP_OF.keys()


def test_the_state_since_when_is_that_of_the_newest_change_and_others_are_0() -> None:
    conditions = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"},
        {"type": "Paused", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z"},
        {"type": "AgentConnected", "status": "True", "lastTransitionTime": "2027-01-02T03:04:06Z"},
    ]
    of = vm({"printableStatus": "Paused", "conditions": conditions})
    values = {group: told(of, SINCE.format(group))[0][1] for group in ("starting", "running", "migrating", "error")}
    assert values == {"starting": 0, "running": 0, "migrating": 0, "error": 0}
    assert told(of, SINCE.format("non_running")) == [({}, 1767323046)]


def test_a_vm_that_nobody_has_looked_at_counts_as_one_with_an_error() -> None:
    of = vm()
    assert told(of, "kubevirt_vm_info")[0][0]["status_group"] == "<unknown>"
    assert told(of, SINCE.format("error")) == [({}, -1)]


@pytest.mark.parametrize(
    ("domain", "requests"),
    [
        (
            {},
            {
                ("memory", "bytes", "guest"): 64 << 20,
                ("cpu", "cores", "default"): 1,
                ("cpu", "threads", "default"): 1,
                ("cpu", "sockets", "default"): 1,
            },
        ),
        (
            {
                "cpu": {"cores": 2, "sockets": 3},
                "memory": {"guest": "1Gi", "hugepages": {"pageSize": "2Mi"}},
                "resources": {"requests": {"memory": "2Gi", "cpu": "500m"}},
            },
            {
                ("memory", "bytes", "domain"): 2 << 30,
                ("memory", "bytes", "guest"): 1 << 30,
                ("memory", "bytes", "hugepages"): 2 << 20,
                ("cpu", "cores", "domain"): 2,
                ("cpu", "sockets", "domain"): 3,
                ("cpu", "cores", "requests"): 0.5,
            },
        ),
    ],
    ids=["by default", "all that can be said"],
)
def test_requests_are_told_by_their_source(domain: JsonObject, requests: dict[tuple[str, ...], float]) -> None:
    found = told(vm(**domain), "kubevirt_vm_resource_requests")
    assert {(labels["resource"], labels["unit"], labels["source"]): value for labels, value in found} == requests


def test_limits_and_nics_are_told() -> None:
    of = vm(resources={"limits": {"memory": "2Gi", "cpu": 2}})
    found = told(of, "kubevirt_vm_resource_limits")
    memory, cpu = {"resource": "memory", "unit": "bytes"}, {"resource": "cpu", "unit": "cores"}
    assert found == [(memory, 2 << 30), (cpu, 2)]
    assert [labels["vnic_name"] for labels, _ in told(of, "kubevirt_vm_vnic_info")] == ["default"]


def disks(*volumes: JsonObject) -> VirtualMachine:
    document = vm_of(small_vmi())
    document["spec"]["template"]["spec"]["volumes"] = list(volumes)
    template = {"metadata": {"name": "data"}, "spec": {"storage": {"resources": {"requests": {"storage": "10Gi"}}}}}
    document["spec"]["dataVolumeTemplates"] = [template]
    return decode(VirtualMachine, document)


def test_disks_on_claims_are_told_of_by_what_was_asked_for() -> None:
    of = disks(
        {"name": "system", "persistentVolumeClaim": {"claimName": "root"}},
        {"name": "more", "dataVolume": {"name": "data"}},
        {"name": "lost", "dataVolume": {"name": "nowhere"}},
        {"name": "image", "containerDisk": {"image": "guest"}},
    )
    assert told(of, "kubevirt_vm_disk_allocated_size_bytes") == [
        ({"persistentvolumeclaim": "root", "volume_mode": "Block", "device": "system"}, 10 << 30),
        # Its claim asks for more, for the room of its file system.
        ({"persistentvolumeclaim": "data", "volume_mode": "Filesystem", "device": "more"}, 10 << 30),
    ]
    of.spec.data_volume_templates = []
    assert told(of, "kubevirt_vm_disk_allocated_size_bytes")[1][1] == 11 << 30


def test_labels_of_a_vm_and_of_its_template_are_told_of_once() -> None:
    of = vm()
    of.metadata.labels = {"app": "shop", "team.example.com/name": "a"}
    of.spec.template.metadata.labels = {"app": "web"}  # type: ignore[union-attr]
    assert told(of, "kubevirt_vm_labels") == [({"label_app": "web", "label_team_example_com_name": "a"}, 1)]


def test_all_that_is_told_stands_in_the_table() -> None:
    of = vm({"printableStatus": "Running"}, resources={"limits": {"cpu": 2}})
    of.metadata.labels = {"app": "web"}
    names = {each.name for found in (of, disks()) for each in tell_vm(CLAIMS, LabelChoice(), found)}
    with_disk = disks({"name": "system", "persistentVolumeClaim": {"claimName": "root"}})
    assert names | {each.name for each in tell_vm(CLAIMS, LabelChoice(), with_disk)} == TABLE.keys()
