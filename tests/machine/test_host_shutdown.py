"""The host goes down: guests are shut down by ACPI, and run again when the box does, by their run strategies."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.machine.test_one_box import IMAGE
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.96.0.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    found.remove()


def test_guests_are_shut_down_with_the_host_and_run_again_with_it(box: Box) -> None:
    strategies = {"always": "Always", "rerun": "RerunOnFailure", "manual": "Manual"}
    for name, strategy in strategies.items():
        box.apply(small_vm(name, IMAGE, run_strategy=strategy))
    box.cli("start", "manual")
    box.cli("start", "rerun", check=False)
    before = {name: box.wait_phase(name, "Running") for name in strategies}
    for name in strategies:
        box.wait_answer(name)

    refused = box.cli("host-shutdown", "--data-dir", str(box.data_dir), check=False)
    assert refused.returncode == 5
    assert "in use" in refused.stderr
    assert all(box.qemu_pids(vmi.metadata.uid) for vmi in before.values())

    box.end()
    begun = time.monotonic()
    done = box.cli("host-shutdown", "--data-dir", str(box.data_dir), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # All at once, and none was killed at the end of its grace period of 30 s or later.
    assert "is killed" not in done.stdout
    assert done.stdout.count("is down") == 3
    assert time.monotonic() - begun < 60
    assert all(box.qemu_pids(vmi.metadata.uid) == [] for vmi in before.values())

    box.start()
    for name in ("always", "rerun"):
        box.wait_answer(name)
        assert box.wait_phase(name, "Running").metadata.uid != before[name].metadata.uid
    # Nobody asked for another run of this one.
    assert box.wait_phase("manual", "Failed").metadata.uid == before["manual"].metadata.uid
    pods = {pod.metadata.name: pod for pod in box.pods(before["manual"])}
    wait_until(lambda: all(pod.status.phase == "Failed" for pod in pods.values()), "its Pod is Failed")
