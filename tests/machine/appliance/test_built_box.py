"""A whole box from the one file: it boots a VM, and its tree stays for as long as the VM runs."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.appliance.install.unpacked_trees import remove_unused_trees
from tests.machine.appliance.one_file import the_tree
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

IMAGE = "local/guest:1"


@pytest.fixture
def box(program: Path) -> Iterator[Box]:
    # Below a directory that the launchers' user may not enter, as /root is one.
    directory = Path(tempfile.mkdtemp(prefix="kvedge-test-", dir="/var/tmp"))
    found = Box(directory / "data", "10.92.0.0/24", program=[str(program)])
    # Whatever the CLI is used for, it is unpacked once.
    os.environ["KVEDGE_DATA_DIR"] = str(found.data_dir)
    found.data_dir.mkdir()
    yield found
    del os.environ["KVEDGE_DATA_DIR"]
    found.remove()
    directory.rmdir()


def test_a_vm_boots_and_runs_on_without_the_box_from_a_tree_that_stays(box: Box) -> None:
    old = "0" * 64
    (box.data_dir / "data" / old / "lib").mkdir(parents=True)
    box.import_image(build_guest().disk, IMAGE)
    box.start()
    box.apply(small_vm("built", IMAGE))
    vmi = box.wait_phase("built", "Running")
    assert "Hello from built" in box.wait_answer("built")

    # The version that nothing runs from is gone.
    tree = the_tree(box.data_dir / "data")
    assert tree.name != old
    uid = vmi.metadata.uid
    for pid in (*box.launcher_pids(uid), *box.qemu_pids(uid)):
        names = {entry.split("=")[0] for entry in environment_of(pid)}
        assert not names & {"LD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG", "_KVEDGE_FILE", "_MEIPASS2"}, pid
    for pid in box.launcher_pids(uid):
        assert os.readlink(f"/proc/{pid}/exe") == str(tree / "kvedge")

    box.end(signal.SIGKILL)
    assert remove_unused_trees(box.data_dir / "data", None, "") == []
    box.start()
    assert "Hello from built" in box.wait_answer("built")
    box.cli("delete", "vm", "built")
    box.wait_gone("built")
    box.end()
    assert remove_unused_trees(box.data_dir / "data", None, "") == [tree.name]


def environment_of(pid: int) -> list[str]:
    """The environment that a process was started with."""
    return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
