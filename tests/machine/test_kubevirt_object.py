"""The KubeVirt object on one box: it is there, it is true, and the next VM follows it without a restart."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import Invalid, NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.names import CPU_MODEL_PREFIX, MACHINE_TYPE_PREFIX, SYSTEM_NAMESPACE
from kvedge.resources.types.core import (
    Container,
    ContainerClaim,
    Node,
    Pod,
    PodResourceClaim,
    PodSpec,
    ResourceRequirements,
)
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vm_types.preferences import VirtualMachineClusterPreference
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.kubectl import current_kubectl
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]
IMAGE = "local/guest:1"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("kv"), "10.98.7.0/24", IMAGE) as found:
        wait_until(lambda: found.client.list(KubeVirt), "the object is made")
        yield found


def kubevirt(box: Box) -> KubeVirt:
    return box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt")


def available(box: Box) -> bool:
    found = condition(kubevirt(box).status.conditions, "Available")
    return found is not None and found.status == "True"


def kubectl(box: Box, *arguments: str) -> str:
    program = current_kubectl()
    if program is None:
        pytest.skip("there is no kubectl in /usr/local/kubebuilder/bin or on the PATH")
    command = [str(program), "-n", SYSTEM_NAMESPACE, *arguments]
    environment = {**os.environ, "KUBECONFIG": str(box.kubeconfig)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def configure(box: Box, **configuration: Any) -> None:
    """Change the configuration as an administrator does, and wait until the status says that it was seen."""
    patch = json.dumps({"spec": {"configuration": configuration}})
    kubectl(box, "patch", "kubevirt", "kubevirt", "--type", "merge", "-p", patch)
    generation = kubevirt(box).metadata.generation
    wait_until(lambda: kubevirt(box).status.observed_generation == generation, "the change is seen")


def some_label(box: Box, prefix: str, wanted: str) -> str:
    """What the node offers under a prefix: the wanted one, or any that is not the default."""
    [node] = box.client.list(Node)
    offered = sorted(label.removeprefix(prefix) for label in node.metadata.labels if label.startswith(prefix))
    return next(name for name in offered if wanted in name)


def qemu_command(box: Box, uid: str) -> str:
    [pid] = box.qemu_pids(uid)
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_an_object_is_there_and_says_that_all_is_ready(box: Box) -> None:
    wait_until(lambda: available(box), "it is available")
    found = kubevirt(box)
    assert found.status.phase == "Deployed"
    told = {item.type: item.status for item in found.status.conditions}
    # Said once the launchers have been looked at.
    assert told.pop("LaunchersUpToDate", "True") == "True"
    assert told == {
        "ConfigurationValid": "True",
        "ConfigurationApplied": "True",
        "AllNodesOfThisVersion": "True",
        "Created": "True",
        "Available": "True",
        "Progressing": "False",
        "Degraded": "False",
    }
    assert found.status.observed_kube_virt_version.startswith("v")


def test_kubectl_and_kvedge_show_it(box: Box) -> None:
    # What installers of KubeVirt wait for.
    kubectl(box, "wait", "kv", "kubevirt", "--for", "condition=Available", "--timeout", "30s")
    shown = kubectl(box, "get", "kv").splitlines()
    assert (shown[0].split(), shown[1].split()[0]) == (["NAME", "AGE", "PHASE"], "kubevirt")
    assert shown[1].split()[-1] == "Deployed"
    ours = box.cli("get", "kubevirt", "-n", SYSTEM_NAMESPACE).stdout
    assert "Deployed" in ours


def test_the_next_vm_follows_a_change_and_the_running_one_does_not(box: Box) -> None:
    # Nobody waits for these guests to boot: they are ended at once.
    box.apply(small_vm("before", IMAGE, terminationGracePeriodSeconds=0))
    before = box.wait_phase("before", "Running")
    pids = box.qemu_pids(before.metadata.uid)
    machine = some_label(box, MACHINE_TYPE_PREFIX, "pc-q35-")
    model = some_label(box, CPU_MODEL_PREFIX, "Nehalem")
    options = {"disableFreePageReporting": {}, "disableSerialConsoleLog": {}}
    smbios = {"family": "Shelf", "version": "7"}
    configure(box, machineType=machine, cpuModel=model, smbios=smbios, virtualMachineOptions=options)
    box.apply(small_vm("after", IMAGE, terminationGracePeriodSeconds=0))
    after = box.wait_phase("after", "Running")
    assert after.spec.domain.machine is not None
    assert after.spec.domain.cpu is not None
    assert (after.spec.domain.machine.type, after.spec.domain.cpu.model) == (machine, model)
    command = qemu_command(box, after.metadata.uid)
    assert machine in command
    assert model in command
    assert "version=7,family=Shelf" in re.sub(r"serial=[^,]*,|uuid=[^,]*,", "", command)
    assert '"free-page-reporting":true' in qemu_command(box, before.metadata.uid)
    assert '"free-page-reporting":true' not in command
    assert box.qemu_pids(before.metadata.uid) == pids
    again = box.vmi("before")
    assert again is not None
    assert again.spec == before.spec
    for name in ("before", "after"):
        box.remove_vm(name)


def test_sockets_reach_a_running_guest_once_changes_are_rolled_out_live(box: Box) -> None:
    configure(box, vmRolloutStrategy="LiveUpdate", liveUpdateConfiguration={"maxHotplugRatio": 2})
    box.apply(small_vm("grows", IMAGE, terminationGracePeriodSeconds=0))
    started = box.wait_phase("grows", "Running")
    assert started.spec.domain.cpu is not None
    assert started.spec.domain.cpu.max_sockets == 2
    pids = box.qemu_pids(started.metadata.uid)

    def says(sockets: int) -> None:
        spec = {"domain": {"cpu": {"sockets": sockets}}}
        change: Any = {"spec": {"template": {"spec": spec}}}
        box.client.patch(VirtualMachine, "default", "grows", MergePatch(change))

    def has() -> int:
        found = box.vmi("grows")
        assert found is not None
        assert found.status.current_cpu_topology is not None
        return found.status.current_cpu_topology.sockets

    def restart() -> str:
        vm = box.client.get(VirtualMachine, "default", "grows")
        found = condition(vm.status.conditions, "RestartRequired")
        return "" if found is None else found.message

    assert has() == 1
    says(2)
    wait_until(lambda: has() == 2, "the guest has two sockets", 60)
    assert restart() == ""
    says(3)
    wait_until(lambda: "higher than what's available" in restart(), "there is no room for three")
    says(1)
    wait_until(lambda: restart() == "Reduction of CPU socket count requires a restart", "none is taken away")
    says(2)
    wait_until(lambda: restart() == "", "all is as it should be")
    assert has() == 2
    assert box.qemu_pids(started.metadata.uid) == pids
    box.remove_vm("grows")


def test_a_vm_with_a_container_disk_runs_when_the_gate_of_image_volumes_is_disabled(box: Box) -> None:
    """As old client set-ups disable it by themselves for an API below 1.35."""
    configure(box, developerConfiguration={"disabledFeatureGates": ["ImageVolume"]})
    box.apply(small_vm("gated", IMAGE, terminationGracePeriodSeconds=0))
    box.wait_phase("gated", "Running")
    box.remove_vm("gated")


def test_a_vm_of_a_ready_made_size_runs_with_its_cpus_and_memory(box: Box) -> None:
    """All of it as a user has it: the sizes and systems that are there, named in one line."""
    path = VirtualMachineClusterPreference.KIND.path(name="alpine")

    def is_there() -> bool:
        try:
            return bool(box.client.request("GET", path))
        except NotFound:
            return False

    wait_until(is_there, "the ready-made preferences are there", 60)
    box.cli("launch", IMAGE, "sized", "--type", "u1.nano", "--os", "alpine")
    sized = box.wait_phase("sized", "Running")
    domain = sized.spec.domain
    assert domain.cpu is not None
    assert domain.memory is not None
    assert (domain.cpu.sockets, domain.cpu.cores, domain.memory.guest) == (1, 1, "512Mi")
    assert [disk.disk.bus for disk in domain.devices.disks if disk.disk is not None] == ["virtio"]
    command = qemu_command(box, sized.metadata.uid)
    assert "-smp 1" in command
    assert "-m 512 " in command
    box.client.delete(VirtualMachineInstance, "default", "sized", grace_seconds=0)
    box.remove_vm("sized")


def _devices(box: Box, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(box.cli("device", "list", "-o", "json", *arguments).stdout)
    return found


def test_a_device_that_the_host_uses_is_listed_with_why_and_a_vm_waits_for_it(box: Box) -> None:
    there = wait_until(lambda: [row for row in _devices(box) if row["kind"] == "pci"], "the node tells what it has")
    taken = next((row for row in there if row.get("driver") not in (None, "vfio-pci")), None)
    if taken is None:
        pytest.skip("this machine has no PCI function with a driver of the host's")
    assert not taken["permitted"]
    permitted = {"pciVendorSelector": taken["model"], "resourceName": "example.com/card"}
    configure(
        box,
        permittedHostDevices={"pciHostDevices": [permitted]},
        developerConfiguration={"featureGates": ["HostDevices"]},
    )

    def told() -> str:
        return next(
            (row.get("trouble", "") for row in _devices(box, "--permitted") if row["device"] == taken["device"]), ""
        )

    trouble = wait_until(told, "it is permitted, and cannot be given")
    assert "turn the IOMMU on" in trouble or "bind it to vfio-pci" in trouble
    vm = small_vm("carded", IMAGE, terminationGracePeriodSeconds=0)
    devices = vm["spec"]["template"]["spec"]["domain"]["devices"]
    devices["hostDevices"] = [{"name": "card", "deviceName": "example.com/card"}]
    box.apply(vm)

    def waits() -> str:
        vmi = box.vmi("carded")
        found = condition(vmi.status.conditions, "PodScheduled") if vmi is not None else None
        return found.message if found is not None and found.status == "False" else ""

    assert "Insufficient example.com/card" in wait_until(waits, "the VM waits, and says for what")
    box.remove_vm("carded")


def test_a_vm_with_claims_on_devices_is_refused_with_what_to_do_and_a_pod_with_some_fails(box: Box) -> None:
    claims = [{"name": "cards", "resourceClaimTemplateName": "one-gpu"}]
    vm = small_vm("claiming", IMAGE, "Always", resourceClaims=claims)
    with pytest.raises(Invalid, match=r"one box has nothing that allocates devices to claims .*permittedHostDevices"):
        box.client.request("POST", VirtualMachine.KIND.path("default"), vm)
    container = Container(name="c", image=IMAGE, resources=ResourceRequirements(claims=[ContainerClaim(name="cards")]))
    spec = PodSpec(
        containers=[container],
        restart_policy="Never",
        resource_claims=[PodResourceClaim(name="cards", resource_claim_name="one")],
    )
    box.client.create(Pod(metadata=ObjectMeta(name="claiming", namespace="default"), spec=spec))

    def fails() -> str:
        found = box.client.get(Pod, "default", "claiming").status
        return found.message if found.phase == "Failed" else ""

    assert "spec.resourceClaims: nothing allocates devices" in wait_until(fails, "the Pod fails")
    box.client.delete(Pod, "default", "claiming")
