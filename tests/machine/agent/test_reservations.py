"""qemu-pr-helper in a Pod: the handler's plugin, the node agent and the helper are real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvedge.handler.node.device_plugins import DevicePlugins
from kvedge.handler.node.reservation_helper import PROGRAM, ReservationHelper
from kvedge.handler.node.reservation_plugin import Reservations
from kvedge.resources.meta import condition
from kvedge.resources.names import DEVICE_PR_HELPER, PR_HELPER_DIRECTORY, PR_HELPER_SOCKET
from kvedge.resources.types.core import EmptyDirVolume, Node, PodVolume, ResourceRequirements, VolumeMount
from kvedge.runtime.clock import SystemClock
from tests.machine.agent.box import NODE, Box, box, shell_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs qemu-pr-helper")

SHOW = (
    f"ls -ln {PR_HELPER_DIRECTORY}; touch {PR_HELPER_DIRECTORY}/mine 2>&1;"
    f" rm {PR_HELPER_DIRECTORY}/{PR_HELPER_SOCKET} 2>&1; echo shown; sleep 1000"
)


@dataclass
class _Node:
    box: Box
    reservations: Reservations
    helper: ReservationHelper

    def make(self, name: str, count: str) -> None:
        pod = shell_pod(name, SHOW)
        # A launcher has a directory of its own above the socket's.
        pod.spec.volumes.append(PodVolume(name="public", empty_dir=EmptyDirVolume()))
        pod.spec.containers[0].volume_mounts.append(VolumeMount(name="public", mount_path="/var/run/kubevirt"))
        if count:
            pod.spec.containers[0].resources = ResourceRequirements(limits={DEVICE_PR_HELPER: count})
        self.box.client.create(pod)

    def said(self, name: str) -> str:
        pod = self.box.in_phase(name, "Running")
        wait_until(lambda: "shown" in self.box.said(pod), "it has shown what it has")
        return self.box.said(pod)

    def waits(self, name: str) -> str:
        def look() -> str:
            pod = self.box.pod(name)
            found = condition(pod.status.conditions, "PodScheduled") if pod is not None else None
            return found.message if found is not None and found.status == "False" else ""

        return wait_until(look, f"{name} waits")

    def allocatable(self) -> str:
        return str(self.box.client.get(Node, "", NODE).status.allocatable.get(DEVICE_PR_HELPER))


@pytest.fixture
def node(tmp_path: Path, busybox: Path) -> Iterator[_Node]:
    (tmp_path / "data").mkdir()
    with box(tmp_path / "data", busybox, "10.243.29.0/24") as one:
        helper = ReservationHelper(tmp_path / "state" / "pr-helper", SystemClock())
        reservations = Reservations(helper, lambda: False, lambda _: None)
        plugins = DevicePlugins(one.config.kubelet / "device-plugins", [], reservations.plugins)
        one.start_agent()
        plugins.start()
        try:
            yield _Node(one, reservations, helper)
        finally:
            plugins.stop()
            reservations.stop()
            wait_until(lambda: not helper.runs, "the helper has ended")


def test_a_pod_that_asks_has_the_socket_where_nobody_but_the_node_can_write(node: _Node) -> None:
    node.make("asks", "1")
    assert f"Insufficient {DEVICE_PR_HELPER}" in node.waits("asks")
    node.reservations.allow(True)
    said = node.said("asks")
    assert f" {PR_HELPER_SOCKET}\n" in said
    assert said.count("Read-only file system") == 2, said
    assert (node.helper.directory / PR_HELPER_SOCKET).is_socket()

    node.make("other", "")
    assert "No such file or directory" in node.said("other")

    node.reservations.allow(False)
    wait_until(lambda: node.allocatable() in ("0", "None"), "no more is offered")
    wait_until(lambda: not node.helper.runs, "the helper has ended")
