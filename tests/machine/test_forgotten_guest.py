"""The objects of a box are lost under a running guest: it shuts down, and runs once when it is wanted again."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.machine.test_one_box import IMAGE
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.51.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    found.remove()


def test_a_guest_that_the_store_has_forgotten_shuts_down_and_runs_once_when_it_is_applied_again(box: Box) -> None:
    box.apply(small_vm("web", IMAGE))
    first = box.wait_phase("web", "Running")
    box.wait_answer("web")
    (pod,) = box.pods(first)
    box.end(signal.SIGKILL)
    # A dying disk, whose newest copy is from before the VM; the log would make it whole again.
    (box.data_dir / "state" / "kvedge.db").write_bytes(b"rubbish" * 9999)
    (box.data_dir / "state" / "kvedge.db-wal").unlink()
    box.start()
    assert box.client.list(VirtualMachine) == []

    box.apply(small_vm("web", IMAGE))

    def second_run() -> VirtualMachineInstance | None:
        before, vmi = box.qemu_pids(first.metadata.uid), box.vmi("web")
        if vmi is None or not box.qemu_pids(vmi.metadata.uid):
            return None
        assert before == [], "two guests of one VM"
        return vmi if vmi.status.phase == "Running" else None

    second = wait_until(second_run, "the VM runs again", 120)
    assert len(box.qemu_pids(second.metadata.uid)) == 1
    box.wait_answer("web")
    kept = box.data_dir / "kubelet" / "lost" / pod.metadata.uid
    assert (kept / "pod.json").exists()
    (said,) = kept.glob("**/*serial*-log")
    assert b"reboot: Power down" in said.read_bytes()
