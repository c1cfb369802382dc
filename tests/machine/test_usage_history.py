"""What a real guest has used is kept while it runs, told by the command line, and there after the box has ended."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from kvedge.resources.usage.guest_history import CPUS, MEMORY, SERIES
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600), pytest.mark.incremental]

IMAGE = "local/guest:1"
NAME = "used"
# Looks are ten seconds apart, and the first one makes no rate.
POINTS = 3
SECONDS = 90.0


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("usage") / "data", "10.98.184.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    found.apply(small_vm(NAME, IMAGE))
    found.wait_phase(NAME, "Running")
    yield found
    found.remove()


def known(box: Box, name: str = CPUS) -> list[float]:
    """What is known of the last hour."""
    told = json.loads(box.cli("top", NAME, "--history", "hour", "-o", "json").stdout)
    assert set(told["series"]) == set(SERIES)
    return [value for value in told["series"][name] if value is not None]


def test_a_guest_that_runs_fills_its_graphs(box: Box) -> None:
    wait_until(lambda: len(known(box)) >= POINTS, "some looks were made", SECONDS)
    # It has one vCPU, and QEMU some threads beside it.
    assert all(0 <= value < 4 for value in known(box))
    assert all(value > 1 << 20 for value in known(box, MEMORY))
    shown = box.cli("top", NAME, "--history", "hour").stdout
    assert {"CPU", "MEMORY"} <= {line.split()[0] for line in shown.splitlines()[1:]}


def test_a_box_that_is_started_again_goes_on(box: Box) -> None:
    before = len(known(box))
    box.end(signal.SIGTERM)
    box.start()
    assert len(known(box)) >= before
    wait_until(lambda: len(known(box)) > before, "it looks again", SECONDS)


def test_a_vm_that_does_not_run_has_nobody_to_ask(box: Box) -> None:
    box.cli("stop", NAME, "--force", "--grace-period", "0", "--wait")
    done = box.cli("top", NAME, "--history", "hour", check=False)
    assert done.returncode != 0
    assert NAME in done.stderr
