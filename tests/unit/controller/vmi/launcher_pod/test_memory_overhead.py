"""What a VM costs beyond its guest's memory."""

from __future__ import annotations

import msgspec
import pytest

from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes, pod_resources
from kvedge.controller.vmi.launcher_pod.memory_overhead import GuestShape, memory_overhead
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, vmi_of
from tests.support.values import replace

MIB = 1024 * 1024


def with_domain(**domain: object) -> VirtualMachineInstance:
    return vmi_of({"metadata": {"name": "x"}, "spec": {"domain": domain}})


def test_a_small_vm_costs_less_than_kubevirt_reserves_for_it():
    assert memory_overhead(GuestShape(memory=1024 * MIB, vcpus=1, graphics=True)) == 154 * MIB


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"vcpus": 3}, 2 * 4),
        ({"graphics": False}, -32),
        ({"memory": 2048 * MIB}, 2),
        ({"architecture": "arm64"}, 128),
        ({"emulated": True}, 128),
        ({"exec_probes": 2}, 2 * 10),
        # KubeVirt's for VFIO.
        ({"passes_devices": True}, 1024),
        ({"tpm": True}, 32),
        ({"metrics_disk": True}, 1),
        ({"spice": True}, 32),
        # KubeVirt's for passt.
        ({"passt": True}, 250),
        # KubeVirt's for AMD SEV.
        ({"sev": True}, 256),
        ({"added": 100 * MIB}, 100),
    ],
    ids=str,
)
def test_each_part_counts(change, more):
    base = GuestShape(memory=1024 * MIB, vcpus=1, graphics=True)
    assert memory_overhead(replace(base, **change)) - memory_overhead(base) == more * MIB


@pytest.mark.parametrize(
    ("probes", "more"),
    [
        ({"readinessProbe": {"tcpSocket": {"port": 80}}}, 0),
        ({"readinessProbe": {"exec": {"command": ["true"]}}}, 10),
        ({"readinessProbe": {"exec": {"command": ["true"]}}, "livenessProbe": {"guestAgentPing": {}}}, 20),
    ],
    ids=["one that the kubelet asks", "a program in the guest", "both of the agent"],
)
def test_what_asks_the_agent_costs_memory(probes, more):
    plain = vmi_of({"metadata": {"name": "x"}, "spec": {}})
    probed = vmi_of({"metadata": {"name": "x"}, "spec": probes})
    assert overhead_bytes(probed, CONFIG) - overhead_bytes(plain, CONFIG) == more * MIB


def test_the_overhead_is_whole_mebibytes_rounded_up():
    assert memory_overhead(GuestShape(memory=1, vcpus=1, graphics=False)) % MIB == 0
    assert memory_overhead(GuestShape(memory=512 * MIB + 1, vcpus=1, graphics=False)) == 121 * MIB


@pytest.mark.parametrize(
    ("domain", "base"),
    [
        ({"memory": {"guest": "1Gi"}}, 1024 * MIB),
        ({"memory": {"guest": "1Gi"}, "resources": {"requests": {"memory": "512Mi"}}}, 512 * MIB),
        ({"resources": {"limits": {"memory": "256Mi"}}}, 256 * MIB),
        ({"resources": {"requests": {"memory": "4G"}}}, 4_000_000_000),
        ({}, 0),
    ],
    ids=str,
)
def test_the_request_is_what_the_user_asked_for_plus_the_overhead(domain, base):
    vmi = with_domain(**domain)
    assert int(pod_resources(vmi, CONFIG).requests["memory"]) == base + overhead_bytes(vmi, CONFIG)


def test_memory_can_be_overcommitted_but_a_request_is_taken_as_it_is():
    config = replace(CONFIG, memory_overcommit_percent=200)
    by_guest = with_domain(memory={"guest": "1Gi"})
    asked = with_domain(memory={"guest": "1Gi"}, resources={"requests": {"memory": "1Gi"}})
    assert int(pod_resources(by_guest, config).requests["memory"]) - overhead_bytes(by_guest, config) == 512 * MIB
    assert int(pod_resources(asked, config).requests["memory"]) - overhead_bytes(asked, config) == 1024 * MIB


def test_the_overhead_may_be_left_out_of_the_request_but_never_out_of_the_limit():
    vmi = with_domain(resources={"overcommitGuestOverhead": True, "limits": {"memory": "1Gi"}})
    made = pod_resources(vmi, CONFIG)
    assert int(made.requests["memory"]) == 1024 * MIB
    assert int(made.limits["memory"]) == 1024 * MIB + overhead_bytes(vmi, CONFIG)


@pytest.mark.parametrize(
    ("domain", "cpu"),
    [({}, "100m"), ({"cpu": {"cores": 25}}, "2500m"), ({"resources": {"requests": {"cpu": "1.5"}}}, "1500m")],
    ids=str,
)
def test_cpu_is_asked_for_by_the_allocation_ratio_unless_the_user_says_more(domain, cpu):
    assert pod_resources(with_domain(**domain), CONFIG).requests["cpu"] == cpu


def test_a_cpu_limit_appears_only_when_the_user_sets_one():
    assert "cpu" not in pod_resources(with_domain(), CONFIG).limits
    assert pod_resources(with_domain(resources={"limits": {"cpu": 2}}), CONFIG).limits["cpu"] == "2"


@pytest.mark.parametrize(
    ("devices", "emulated", "wanted"),
    [
        ({}, False, {"kvm", "tun", "vhost-net"}),
        ({}, True, {"tun"}),
        ({"autoattachPodInterface": False}, False, {"kvm"}),
        ({"interfaces": [{"name": "a", "bridge": {}, "model": "e1000e"}]}, False, {"kvm", "tun"}),
        ({"interfaces": [{"name": "a", "bridge": {}}]}, False, {"kvm", "tun", "vhost-net"}),
    ],
    ids=str,
)
def test_devices_are_asked_for_as_the_guest_needs_them(devices, emulated, wanted):
    limits = pod_resources(with_domain(devices=devices), replace(CONFIG, use_emulation=emulated)).limits
    assert {name.removeprefix("devices.kubevirt.io/") for name in limits} == wanted
    assert msgspec.json.encode(limits)


def test_a_node_without_the_kernels_back_end_runs_guests_without_it():
    asked = pod_resources(with_domain(), replace(CONFIG, use_vhost_net=False)).limits
    assert "devices.kubevirt.io/vhost-net" not in asked
    assert asked["devices.kubevirt.io/kvm"] == "1"


def test_what_the_owner_adds_is_in_the_request():
    plain, more = (
        with_domain(memory={"guest": "1Gi"}),
        with_domain(memory={"guest": "1Gi", "reservedOverhead": {"addedOverhead": "100Mi"}}),
    )
    asked = [int(pod_resources(vmi, CONFIG).requests["memory"]) for vmi in (plain, more)]
    assert asked[1] - asked[0] == 100 * MIB
