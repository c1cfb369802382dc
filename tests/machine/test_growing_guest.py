"""A guest gets CPUs and memory while it runs, and its Pod and the Pod's cgroup with it; and gives memory back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.types.core import ContainerStatus, Pod, ResourceAmounts
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.quantities import parse_bytes
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, hotplug_vm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
IMAGE = "local/growing:1"
NAME = "growing"
_QUOTAS = "/api/v1/namespaces/default/resourcequotas"
_GIB = 1 << 30
# As udev does elsewhere.
_TAKE_MEMORY = "echo online_movable >/sys/devices/system/memory/auto_online_blocks"
_TAKE_CPUS = 'for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do [ -e "$cpu" ] && echo 1 >"$cpu"; done'


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("growing"), "10.98.157.0/24", IMAGE) as found:
        yield found


def growing_vm() -> JsonObject:
    made = hotplug_vm(NAME, IMAGE)
    domain: Any = made["spec"]["template"]["spec"]["domain"]
    domain["cpu"] = {"sockets": 1}
    domain["memory"] = {"guest": "1Gi"}
    # Admission refuses a guest that is larger than the limit which its template names.
    domain["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1536Mi"}}
    return made


class GrowingGuest(HotplugGuest):
    """The guest, its Pod, and the limits of the Pod's cgroups."""

    def have(self, **domain: object) -> None:
        """Edit the VM as a user does."""
        change: Any = {"spec": {"template": {"spec": {"domain": domain}}}}
        self.box.client.patch(VirtualMachine, "default", self.name, MergePatch(change))

    def pod(self) -> Pod:
        """Its one launcher."""
        (pod,) = self.box.client.list(
            Pod, "default", label_selector=f"kubevirt.io/created-by={self.vmi().metadata.uid}"
        )
        return pod

    def asked(self) -> ResourceAmounts:
        """What the Pod's spec asks for."""
        (found,) = [each.resources for each in self.pod().spec.containers if each.name == "compute"]
        return ResourceAmounts(requests=found.requests, limits=found.limits)

    def given(self) -> ContainerStatus:
        """What the node says that it has set aside."""
        (found,) = [each for each in self.pod().status.container_statuses if each.name == "compute"]
        return found

    def is_given(self) -> bool:
        """Whether the Pod has what it asks for, as its status says."""
        asked, given = self.asked(), self.given()
        return given.resources == asked and given.allocated_resources == asked.requests

    def limit(self, controller: str, old: str, new: str) -> str:
        """A limit of the QEMU's cgroup, by its name in version 1 and in version 2."""
        (pid,) = self.box.qemu_pids(self.vmi().metadata.uid)
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        paths = {name: path for _, names, path in lines for name in names.split(",")}
        if controller in paths:
            return Path(f"/sys/fs/cgroup/{controller}", paths[controller].lstrip("/"), old).read_text().strip()
        return Path("/sys/fs/cgroup", paths[""].lstrip("/"), new).read_text().split()[0]

    def cpus(self) -> str:
        """The CPUs that the guest uses."""
        return self.run(f"{_TAKE_CPUS}; cat /sys/devices/system/cpu/online").strip()

    def mebibytes(self) -> int:
        """What the guest has of memory, as it sees it."""
        return int(self.run("awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo"))

    def restart(self) -> str:
        """Why it has to be restarted."""
        found = condition(self.box.vm(self.name).status.conditions, "RestartRequired")
        return "" if found is None else found.message

    def change(self) -> str:
        """The changes that are under way, and what they wait for."""
        names = ("HotVCPUChange", "HotMemoryChange")
        return "\n".join(f"{each.type}: {each.message}" for each in self.vmi().status.conditions if each.type in names)


def _bytes(amounts: ResourceAmounts) -> tuple[int, int]:
    return parse_bytes(amounts.requests["memory"]), parse_bytes(amounts.limits["memory"])


def test_cpus_and_memory_reach_the_guest_its_pod_and_the_cgroup_and_memory_comes_back(box: Box) -> None:
    box.apply(growing_vm())
    guest = GrowingGuest(box, NAME)
    box.wait_phase(NAME, "Running")
    guest.wait_answer()
    pids, pod = box.qemu_pids(guest.vmi().metadata.uid), guest.pod()
    guest.run(_TAKE_MEMORY)
    before, began = guest.mebibytes(), guest.asked()
    assert guest.cpus() == "0"
    assert guest.vmi().status.pod_room is None
    assert guest.is_given()
    assert guest.limit("memory", "memory.limit_in_bytes", "memory.max") == str(_bytes(began)[1])
    assert guest.limit("cpu", "cpu.cfs_quota_us", "cpu.max") == "100000"

    def wait(what: Any, text: str) -> None:
        try:
            wait_until(what, text, 120, 0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{guest.pod().status}\n{guest.told()}") from error

    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    box.client.request("POST", _QUOTAS, {**quota, "spec": {"hard": {"requests.cpu": "1"}}})
    guest.have(cpu={"sockets": 2})
    wait(lambda: "HotVCPUChange: " in guest.change() and "exceeded quota: small" in guest.change(), "why not is told")
    assert guest.cpus() == "0"
    assert guest.asked() == began
    box.client.request("DELETE", f"{_QUOTAS}/small")
    wait(lambda: guest.cpus() == "0-1", "the guest has two CPUs")
    assert guest.is_given()
    # By the CPU allocation ratio's part of a vCPU, as KubeVirt's: a limit is what the user has said, for one vCPU.
    assert guest.asked().limits["cpu"] == guest.asked().requests["cpu"] == "1100m"
    assert guest.limit("cpu", "cpu.cfs_quota_us", "cpu.max") == "110000"
    wait(lambda: guest.change() == "", "the change of CPUs is over")

    guest.have(memory={"guest": "1536Mi"})
    wait(lambda: guest.mebibytes() == before + 512, "the guest has more memory")
    grown = guest.asked()
    assert guest.is_given()
    assert _bytes(grown)[0] >= _bytes(began)[0] + (_GIB >> 1)
    assert _bytes(grown)[1] >= _bytes(began)[1] + (_GIB >> 1)
    assert guest.limit("memory", "memory.limit_in_bytes", "memory.max") == str(_bytes(grown)[1])
    wait(lambda: guest.change() == "", "the change of memory is over")

    # Another agent, handler and controller go on from there.
    box.end()
    box.start()
    assert guest.asked() == grown
    wait(guest.is_given, "the next agent knows the size")
    assert guest.limit("memory", "memory.limit_in_bytes", "memory.max") == str(_bytes(grown)[1])

    guest.have(memory={"guest": "1Gi"})
    wait(lambda: guest.mebibytes() == before, "the guest has given it back")
    wait(lambda: _bytes(guest.asked())[1] < _bytes(grown)[1], "the Pod shrinks after it")
    wait(guest.is_given, "the node takes it back")
    assert _bytes(grown)[1] - _bytes(guest.asked())[1] >= _GIB >> 1
    assert guest.limit("memory", "memory.limit_in_bytes", "memory.max") == str(_bytes(guest.asked())[1])
    wait(lambda: guest.change() == "", "that change is over")
    assert guest.restart() == ""

    guest.have(cpu={"sockets": 1})
    wait(lambda: guest.restart() == "Reduction of CPU socket count requires a restart", "no CPU is taken away")
    assert guest.cpus() == "0-1"
    assert (box.qemu_pids(guest.vmi().metadata.uid), guest.pod().metadata.uid) == (pids, pod.metadata.uid)
    box.remove_vm(NAME)
