"""Launcher Pods whose objects are taken away while their guests run: no VM ever has two QEMUs, and each comes back."""

from __future__ import annotations

import os
import signal

import pytest

from kvedge.resources.names import domain_name
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import processes, small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

_DRAIN = ("--ignore-daemonsets", "--force", "--delete-emptydir-data", "--pod-selector=kubevirt.io=virt-launcher")


class Vm:
    """A VM that runs, and whatever QEMU has its name on any node."""

    def __init__(self, cluster: LocalCluster, name: str, **spec: object) -> None:
        self.cluster, self.name = cluster, name
        cluster.apply(small_vm(name, cluster.image, **spec))
        self.first = cluster.wait_phase(name, "Running")
        cluster.wait_answer(name)
        assert self.qemus() == cluster.qemu_pids(self.first.metadata.uid)
        assert len(self.qemus()) == 1
        self.reasons: set[str] = set()

    def qemus(self) -> list[int]:
        guest = f"guest={domain_name(self.cluster.namespace, self.name)},"
        return [pid for pid, command in processes() if any(part.startswith(guest) for part in command)]

    def follows_alone(self) -> VirtualMachineInstance:
        """The next run; looks all the time whether there are two."""
        try:
            return wait_until(self._next, f"{self.name} runs anew", 240)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.cluster.told(self.name)}") from error

    def _next(self) -> VirtualMachineInstance | None:
        assert len(self.qemus()) <= 1, "two guests on one disk"
        found = self.cluster.vmi(self.name)
        if found is None:
            return None
        if found.metadata.uid != self.first.metadata.uid:
            assert self.cluster.qemu_pids(self.first.metadata.uid) == []
            return found if found.status.phase == "Running" else None
        self.reasons |= {item.reason for item in found.status.conditions}
        return None


@pytest.mark.parametrize("how", ["deleted by force", "drained without grace"])
def test_a_pod_that_is_taken_away_leaves_a_guest_that_is_waited_for(own_cluster: LocalCluster, how: str) -> None:
    vm = Vm(own_cluster, "forced", terminationGracePeriodSeconds=20)
    # It does not hear that it is to end, so that all of its time passes.
    os.kill(*vm.qemus(), signal.SIGSTOP)
    (pod,) = own_cluster.pods(vm.first)
    if how == "deleted by force":
        own_cluster.kubectl("delete", "pod", pod.metadata.name, "--force", "--grace-period=0")
    else:
        place = vm.first.status.node_name
        with own_cluster.cordoned(place):
            own_cluster.kubectl("drain", place, *_DRAIN, "--grace-period=0", "--timeout=60s")
    assert own_cluster.pods(vm.first) == []
    assert vm.qemus() == own_cluster.qemu_pids(vm.first.metadata.uid) != []
    vm.follows_alone()
    assert "PodGone" in vm.reasons
    own_cluster.remove_vm("forced")


@pytest.mark.parametrize("has_pod", [True, False], ids=["with its pod", "without its pod"])
def test_a_launcher_that_hangs_is_not_followed_before_it_has_ended(own_cluster: LocalCluster, has_pod: bool) -> None:
    """It cannot say that its guest runs, and a new handler cannot know it: it looks for what runs there."""
    # Long enough for the handler to give up on the launcher before the kubelet ends it.
    vm = Vm(own_cluster, "hung", terminationGracePeriodSeconds=60, nodeSelector={"kubernetes.io/hostname": "n2"})
    (pod,) = own_cluster.pods(vm.first)
    for pid, command in processes():
        if "launcher" in command and vm.first.metadata.uid in command:
            os.kill(pid, signal.SIGSTOP)
    if not has_pod:
        own_cluster.kubectl("delete", "pod", pod.metadata.name, "--force", "--grace-period=0")
    with own_cluster.without("n2", "kvedge", signal.SIGKILL):
        pass
    vm.follows_alone()
    # A kubelet may end what was deleted by force before the handler has given up on it.
    assert ({"LauncherNotResponding", "PodTerminating"} if has_pod else {"PodGone"}) <= vm.reasons
    own_cluster.remove_vm("hung")
