"""A box whose host is called otherwise from now on keeps its node, and what runs there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.cli.exits import Exit
from kvedge.resources.types.core import Node
from tests.support.box import CHECKOUT, Box, small_vm
from tests.support.guest import build_guest

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]
IMAGE = "local/guest:1"


def called(name: str) -> list[str]:
    """The program on a host of that name."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh", *CHECKOUT]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path / "data", "10.98.41.0/24", program=called("first"))
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    yield found
    found.remove()


def test_a_guest_runs_on_when_its_host_gets_another_name(box: Box) -> None:
    box.start()
    box.apply(small_vm("web", IMAGE))
    before = box.wait_phase("web", "Running")
    (qemu,) = box.qemu_pids(before.metadata.uid)
    box.end()
    box.program = called("second")
    box.start()
    assert [node.metadata.name for node in box.client.list(Node)] == ["first"]
    after = box.wait_phase("web", "Running")
    assert (after.metadata.uid, after.status.node_name) == (before.metadata.uid, "first")
    assert box.qemu_pids(before.metadata.uid) == [qemu]
    # And another guest starts there.
    box.apply(small_vm("next", IMAGE))
    assert box.wait_phase("next", "Running").status.node_name == "first"
    box.end()
    refused = box.cli("standalone", "--data-dir", str(box.data_dir), "--node-name", "second", check=False)
    assert refused.returncode == Exit.HOST
    assert "node-name: second is not the name by which this box's VMs know their node, first" in refused.stderr
    assert box.qemu_pids(before.metadata.uid) == [qemu]
