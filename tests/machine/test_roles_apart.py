"""The roles as processes of their own against a kubeconfig: they do not know what serves it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.role_users import API_USER, CONTROLLER_USER, handler_user
from kvedge.resources.types.cluster import Lease
from kvedge.standalone.agent.agent_removal import remove_everything
from kvedge.standalone.agent.agent_service import AgentConfig, NodeAgent
from kvedge.standalone.apiserver.access.authorizer_rules import AGENTS, APIS, CONTROLLERS, HANDLERS
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]

NODE = "apart"
CIDR = "10.94.32.0/24"
IMAGE = "local/guest:1"


class Roles:
    """Role processes, each with its own identity and log."""

    def __init__(self, directory: Path, server: EmbeddedApi) -> None:
        self._directory = directory
        self._server = server
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str, user: str, group: str, *more: str, instance: str = "") -> None:
        name = f"{role}{instance}"
        kubeconfig = self._directory / f"{name}.kubeconfig"
        self._server.write_kubeconfig(kubeconfig, user, [group])
        command = [sys.executable, "-m", "kvedge", role, "--kubeconfig", str(kubeconfig), "--node-name", NODE]
        command += ["--data-dir", str(self._directory / "data"), *more]
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True)

    def log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text()

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        process = self._processes.pop(name)
        process.send_signal(number)
        return process.wait(30)

    def end_all(self) -> None:
        for name in list(self._processes):
            self.end(name)


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[tuple[Box, Roles]]:
    data = tmp_path / "data"
    (data / "state").mkdir(parents=True)
    server = EmbeddedApi(ApiServerConfig(data, port=0, node_name=NODE))
    server.start()
    box = Box(data, CIDR)
    server.write_kubeconfig(box.kubeconfig, "admin", ["system:masters"])
    server.write_kubeconfig(tmp_path / "agent", f"system:node:{NODE}", [AGENTS])
    config = AgentConfig(node=NODE, data_dir=data, kubelet=data / "kubelet", pod_cidr=CIDR)
    agent = NodeAgent(config, KubeClient.from_kubeconfig(tmp_path / "agent"))
    agent.start()
    roles = Roles(tmp_path, server)
    yield box, roles
    roles.end_all()
    agent.stop()
    box.client.close()
    server.stop()
    remove_everything(config, 0.0)


def test_a_vm_runs_and_its_handler_may_be_replaced_under_it(apart: tuple[Box, Roles]) -> None:
    box, roles = apart
    box.import_image(build_guest().disk, IMAGE)
    roles.start("api", API_USER, APIS)
    # Without KVM in the game, as on the other boxes of the tests.
    roles.start("controller", CONTROLLER_USER, CONTROLLERS, "--emulation", "tcg")
    kubelet = ("--emulation", "tcg", "--kubelet-dir", str(box.data_dir / "kubelet"))
    roles.start("handler", handler_user(NODE), HANDLERS, *kubelet)
    wait_until(lambda: "controller works" in roles.log("controller"), "the controller leads", 60)
    box.apply(small_vm("web", IMAGE))
    vmi = box.wait_phase("web", "Running")
    box.wait_answer("web")
    qemu = box.qemu_pids(vmi.metadata.uid)
    assert roles.end("handler", signal.SIGKILL) == -signal.SIGKILL
    assert box.qemu_pids(vmi.metadata.uid) == qemu
    roles.start("handler", handler_user(NODE), HANDLERS, *kubelet, instance="-2")
    # The new one finds the guest by itself and can end it.
    box.cli("stop", "web")
    box.wait_gone("web")
    assert box.qemu_pids(vmi.metadata.uid) == []


def test_of_two_controllers_one_works_and_the_other_takes_over(apart: tuple[Box, Roles]) -> None:
    box, roles = apart
    roles.start("api", API_USER, APIS)
    for instance in ("-1", "-2"):
        roles.start("controller", CONTROLLER_USER, CONTROLLERS, "--emulation", "tcg", instance=instance)

    def working() -> list[str]:
        return [name for name in ("controller-1", "controller-2") if "controller works" in roles.log(name)]

    wait_until(working, "one leads", 60)
    (leader,) = working()
    holder = box.client.get(Lease, SYSTEM_NAMESPACE, "virt-controller").spec.holder_identity
    assert roles.end(leader) == os.EX_OK
    # A leader that leaves on purpose gives the lease back: nobody waits until it has run out.
    assert box.client.get(Lease, SYSTEM_NAMESPACE, "virt-controller").spec.holder_identity != holder
    other = next(name for name in ("controller-1", "controller-2") if name != leader)
    wait_until(lambda: other in working(), "the other one takes over", 60)
