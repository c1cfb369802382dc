"""A box dies, and another one with another name takes its place: the VMs run there, once, with what they had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvedge.resources.types.core import Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.machine.test_one_box import IMAGE
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]

CIDR = "10.98.161.0/24"


def made(factory: pytest.TempPathFactory) -> Box:
    box = Box(factory.mktemp("box") / "data", CIDR)
    box.data_dir.mkdir()
    box.import_image(build_guest().disk, IMAGE)
    return box


@pytest.fixture
def backup(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, VirtualMachineInstance]:
    """The state of a box with a running VM, and the VM as it was there; nothing else is left of that box."""
    monkeypatch.setenv("KVEDGE_NODE_NAME", "the-old-box")
    old = made(tmp_path_factory)
    path = str(old.data_dir.parent / "state.tar.gz")
    try:
        old.start()
        old.apply(small_vm("web", IMAGE))
        old.wait_answer("web")
        old.cli("state", "backup", path, "--data-dir", str(old.data_dir))
        return path, old.wait_phase("web", "Running")
    finally:
        old.remove()
        monkeypatch.delenv("KVEDGE_NODE_NAME")


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = made(tmp_path_factory)
    yield found
    found.remove()


def test_vms_run_on_the_box_to_which_a_state_is_restored(backup: tuple[str, VirtualMachineInstance], box: Box) -> None:
    path, before = backup
    box.cli("state", "restore", path, "--data-dir", str(box.data_dir))
    box.start()

    def next_run() -> VirtualMachineInstance | None:
        vmi = box.vmi("web")
        is_new = vmi is not None and vmi.metadata.uid != before.metadata.uid
        return vmi if is_new and vmi is not None and vmi.status.phase == "Running" else None

    vmi = wait_until(next_run, "the VM runs", 90)
    assert vmi is not None
    box.wait_answer("web")
    assert [node.metadata.name for node in box.client.list(Node)] == ["the-old-box"] == [vmi.status.node_name]
    assert [(each.ip_address, each.mac) for each in vmi.status.interfaces] == [
        (each.ip_address, each.mac) for each in before.status.interfaces
    ]
    assert len(box.qemu_pids(vmi.metadata.uid)) == 1
