"""Pods of VMs: their address belongs to the VM, and no two of them run at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.manifests.crd_manifest import crds
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.cluster import IpAddress
from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.pod.pod_addresses import PodAddresses
from tests.machine.agent.box import Box, box, marks, shell_pod
from tests.machine.agent.containers import is_alive
from tests.support.waiting import wait_until

_NAMESPACED = "/apis/kubevirt.io/v1/namespaces/default"
_DOMAIN = {"devices": {}}


@pytest.fixture
def made(tmp_path: Path, busybox: Path) -> Iterator[Box]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.20.0/29") as one:
        for document in crds():
            one.client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
        wait_until(lambda: _served(one), "the kinds are served")
        one.start_agent()
        yield one
    assert marks(one.config) == []


def _served(one: Box) -> bool:
    found = one.client.request("GET", "/apis")
    return any(group["name"] == "kubevirt.io" for group in found["groups"])


def _vm(one: Box, name: str) -> dict[str, Any]:
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {"runStrategy": "Manual", "template": {"spec": {"domain": _DOMAIN}}},
    }
    made: dict[str, Any] = one.client.request("POST", f"{_NAMESPACED}/virtualmachines", body)
    return made


def _vmi(one: Box, vm: dict[str, Any] | None, name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if vm is not None:
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": vm["metadata"]["name"]}
        metadata["ownerReferences"] = [{**owner, "uid": vm["metadata"]["uid"], "controller": True}]
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": metadata,
        "spec": {"domain": _DOMAIN},
    }
    made: dict[str, Any] = one.client.request("POST", f"{_NAMESPACED}/virtualmachineinstances", body)
    return made


def _launcher(
    vmi: dict[str, Any], name: str, script: str = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
) -> Pod:
    owner = OwnerReference(
        api_version="kubevirt.io/v1",
        kind="VirtualMachineInstance",
        name=vmi["metadata"]["name"],
        uid=vmi["metadata"]["uid"],
        controller=True,
    )
    return shell_pod(name, script, metadata=ObjectMeta(name=name, namespace="default", owner_references=[owner]))


def _run(one: Box, vm: dict[str, Any] | None, number: int) -> Pod:
    """One run of a VM: VMI, Pod, and both gone again; the Pod as it ran."""
    vmi = _vmi(one, vm, "vmi")
    one.client.create(_launcher(vmi, f"run-{number}"))
    pod = one.in_phase(f"run-{number}", "Running")
    one.client.delete(Pod, "default", f"run-{number}", grace_seconds=5)
    one.wait_gone(f"run-{number}")
    one.client.request("DELETE", f"{_NAMESPACED}/virtualmachineinstances/vmi")
    return pod


def test_a_vm_keeps_its_address_over_its_runs_while_others_come_and_go(made: Box) -> None:
    vm = _vm(made, "sticky")
    first = _run(made, vm, 1)
    made.create("between", "sleep 1000")
    between = made.in_phase("between", "Running")
    second = _run(made, vm, 2)

    assert first.status.pod_ip == second.status.pod_ip
    assert between.status.pod_ip != first.status.pod_ip
    address = made.client.get(IpAddress, "", first.status.pod_ip)
    assert address.spec.parent_ref is not None
    assert (address.spec.parent_ref.resource, address.spec.parent_ref.name) == ("virtualmachines", "sticky")


def test_a_deleted_vm_gives_its_address_back_and_no_other_s(made: Box) -> None:
    kept, gone = _vm(made, "kept"), _vm(made, "gone")
    address = _run(made, kept, 1).status.pod_ip
    other = _run(made, gone, 2).status.pod_ip
    made.client.request("DELETE", f"{_NAMESPACED}/virtualmachines/gone")
    addresses = PodAddresses(made.client, made.config.pod_cidr, frozenset)
    addresses.start()
    try:
        assert addresses.wait_synced(5)
        addresses.sweep()
    finally:
        addresses.stop()

    assert [item.metadata.name for item in made.client.list(IpAddress)] == [address]
    assert other != address


def test_a_guest_that_outlives_its_vm_shares_its_address_with_no_other(made: Box) -> None:
    vm = _vm(made, "orphaned")
    made.client.create(_launcher(_vmi(made, vm, "vmi"), "run"))
    address = made.in_phase("run", "Running").status.pod_ip
    made.client.request("DELETE", f"{_NAMESPACED}/virtualmachines/orphaned?propagationPolicy=Orphan")
    made.create("next", "sleep 1000")

    assert made.in_phase("next", "Running").status.pod_ip != address
    assert address in [item.metadata.name for item in made.client.list(IpAddress)]


def test_a_range_that_is_used_up_is_said_and_goes_on_when_an_address_is_free(made: Box) -> None:
    # Six hosts, one of which is the gateway.
    for number in range(5):
        made.create(f"p{number}", "sleep 1000")
        made.in_phase(f"p{number}", "Running")
    made.create("one-more", "sleep 1000")
    found = wait_until(
        lambda: [text for key, text in made.events("one-more") if key == "FailedCreatePodSandBox"], "an event"
    )
    assert "--pod-cidr" in found[0]
    made.client.delete(Pod, "default", "p0", grace_seconds=1)

    made.wait_gone("p0")
    made.in_phase("one-more", "Running")


def test_a_second_pod_of_a_vm_waits_until_nothing_of_the_first_runs(made: Box) -> None:
    vm = _vm(made, "single")
    vmi = _vmi(made, vm, "vmi")
    made.client.create(_launcher(vmi, "first", "trap '' TERM; while true; do sleep 0.1; done"))
    first = made.in_phase("first", "Running")
    pid = made.pid(first)
    made.client.create(_launcher(vmi, "second"))
    wait_until(lambda: (pod := made.pod("second")) and pod.spec.node_name, "it is bound")
    # By force: its object is gone at once, its process is not.
    made.client.delete(Pod, "default", "first", grace_seconds=0)
    assert is_alive(pid)
    second = made.in_phase("second", "Running")

    assert not is_alive(pid)
    assert second.status.pod_ip == first.status.pod_ip


def test_a_vmi_without_a_vm_owns_its_address_itself(made: Box) -> None:
    vmi = _vmi(made, None, "bare")
    made.client.create(_launcher(vmi, "bare-pod"))
    pod = made.in_phase("bare-pod", "Running")
    address = made.client.get(IpAddress, "", pod.status.pod_ip)

    assert address.spec.parent_ref is not None
    assert address.spec.parent_ref.resource == "virtualmachineinstances"
