"""The power of a real guest in an unmodified virtctl's hands: pause, unpause, reset, soft reboot, restart, stop."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterator

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import condition
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.api_servers import Kubectl
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400), pytest.mark.incremental]
IMAGE = "local/guest:1"
NAME = "power"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.21.0/24", IMAGE) as found:
        yield found


@pytest.fixture(scope="module")
def virtctl(box: Box) -> Kubectl:
    return Kubectl(box.kubeconfig, "virtctl")


@pytest.fixture(scope="module")
def guest(box: Box, virtctl: Kubectl) -> VirtualMachineInstance:
    """The guest of a VM that is started by hand, when it answers for the first time."""
    box.apply(small_vm(NAME, IMAGE, "Manual"))
    assert virtctl.run("start", NAME) == f"VM {NAME} was scheduled to start\n"
    vmi = box.wait_phase(NAME, "Running")
    box.wait_answer(NAME)
    return vmi


def is_paused(client: KubeClient) -> bool:
    found = condition(client.get(VirtualMachineInstance, "default", NAME).status.conditions, "Paused")
    return found is not None and (found.status, found.reason) == ("True", "PausedByUser")


def boot_of(vmi: VirtualMachineInstance) -> str:
    """Which boot the guest is in, as its web page tells now; empty while it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://{vmi.status.interfaces[0].ip_address}/"
    with contextlib.suppress(OSError), opener.open(url, timeout=1) as answer:
        return next((line for line in answer.read(65536).decode().splitlines() if line.startswith("boot_id=")), "")
    return ""


def boots_again(vmi: VirtualMachineInstance, before: str) -> None:
    """Wait until the guest answers from another boot."""
    wait_until(lambda: boot_of(vmi) not in ("", before), "the guest has booted again", 90)


def status(box: Box) -> str:
    return box.client.get(VirtualMachine, "default", NAME).status.printable_status


def test_a_paused_guest_stands_still_until_it_is_unpaused(
    box: Box, virtctl: Kubectl, guest: VirtualMachineInstance
) -> None:
    running = box.wait_phase(NAME, "Running")
    boot = boot_of(running)
    assert virtctl.run("pause", "vm", NAME) == f"VMI {NAME} was scheduled to pause\n"
    wait_until(lambda: is_paused(box.client), "the VMI says that it is paused")
    wait_until(lambda: status(box) == "Paused", "the VM says that it is paused")
    assert boot_of(running) == ""
    again = virtctl.try_run("pause", "vmi", NAME)
    assert again.returncode == 1
    assert "VMI is already paused" in again.stderr
    assert "VMI is paused" in virtctl.try_run("soft-reboot", NAME).stderr
    assert virtctl.run("unpause", "vmi", NAME) == f"VMI {NAME} was scheduled to unpause\n"
    wait_until(lambda: status(box) == "Running", "the VM says that it runs")
    wait_until(lambda: boot_of(running) == boot, "the guest goes on where it was")
    assert not is_paused(box.client)


def test_a_reset_boots_the_same_qemu_again(box: Box, virtctl: Kubectl, guest: VirtualMachineInstance) -> None:
    running, qemu = box.wait_phase(NAME, "Running"), box.qemu_pids(guest.metadata.uid)
    boot = boot_of(running)
    assert virtctl.try_run("reset", NAME).returncode == 0
    boots_again(running, boot)
    assert box.wait_phase(NAME, "Running").metadata.uid == guest.metadata.uid
    assert box.qemu_pids(guest.metadata.uid) == qemu


def test_a_soft_reboot_asks_the_guest_and_boots_the_same_qemu_again(
    box: Box, virtctl: Kubectl, guest: VirtualMachineInstance
) -> None:
    running, qemu = box.wait_phase(NAME, "Running"), box.qemu_pids(guest.metadata.uid)
    boot = boot_of(running)
    assert virtctl.try_run("soft-reboot", NAME).returncode == 0
    boots_again(running, boot)
    assert box.wait_phase(NAME, "Running").metadata.uid == guest.metadata.uid
    assert box.qemu_pids(guest.metadata.uid) == qemu


@pytest.mark.parametrize("how", [(), ("--force", "--grace-period=0")], ids=["asked", "forced"])
def test_a_restart_is_another_run(
    box: Box, virtctl: Kubectl, guest: VirtualMachineInstance, how: tuple[str, ...]
) -> None:
    before = box.wait_phase(NAME, "Running")
    assert virtctl.run("restart", NAME, *how) == f"VM {NAME} was scheduled to restart\n"

    def another() -> bool:
        vmi = box.vmi(NAME)
        return vmi is not None and vmi.metadata.uid != before.metadata.uid and vmi.status.phase == "Running"

    wait_until(another, "another run has begun", 90)
    after = box.wait_phase(NAME, "Running")
    assert after.status.interfaces[0].ip_address == before.status.interfaces[0].ip_address
    # It has the time that its VM gives it, however little the last one had.
    assert after.spec.termination_grace_period_seconds == 20
    assert box.qemu_pids(before.metadata.uid) == []


def test_a_paused_start_waits_for_an_unpause(box: Box, virtctl: Kubectl, guest: VirtualMachineInstance) -> None:
    virtctl.run("stop", NAME, "--force", "--grace-period=0")
    box.wait_gone(NAME)
    wait_until(lambda: status(box) == "Stopped", "the VM is stopped")
    assert "VM is not running" in virtctl.try_run("stop", NAME).stderr
    virtctl.run("start", NAME, "--paused")
    box.wait_phase(NAME, "Running")
    wait_until(lambda: is_paused(box.client), "it begins paused")
    virtctl.run("unpause", "vm", NAME)
    wait_until(lambda: status(box) == "Running", "the VM says that it runs")
