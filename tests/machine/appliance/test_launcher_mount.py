"""The built program as a launcher Pod of a cluster has it: mounted from its tree under a name without a version."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

import kvedge
from kvedge.appliance.host.tree_users import find_used_trees
from kvedge.appliance.install.unpacked_trees import remove_unused_trees
from tests.machine.appliance.one_file import start, the_tree
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]

# As a runtime does it: the link is resolved, and the tree mounted read-only at the path of the link.
_AS_IN_A_POD = """
tree=$(realpath "$1")
mkdir -p "$2"
mount --bind "$tree" "$2"
mount -o remount,bind,ro "$2"
# What is beside it on the host is not in the Pod.
mount -t tmpfs none "${tree%/*}"
shift 2
exec "$@"
"""


def in_a_pod(data: Path, mounted: Path, *command: str) -> list[str]:
    script = ["unshare", "--mount", "sh", "-euc", _AS_IN_A_POD, "sh", str(data / "launcher"), str(mounted)]
    return [*script, str(mounted / "kvedge"), *command]


def test_it_runs_from_a_mount_of_another_name_and_keeps_its_tree_from_removal(program: Path, data: Path) -> None:
    assert start(program, "version", data=data).returncode == 0
    tree, mounted = the_tree(data / "data"), data / "in-the-pod" / "launcher"
    (data / "launcher").symlink_to(tree)
    done = subprocess.run(in_a_pod(data, mounted, "version"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"Client Version: kvedge {kvedge.__version__}\n"), done.stderr
    # What a launcher asks first of libvirt and QEMU, in a process of its own; a moment in which it can be looked at.
    seed = data / "seed"
    seed.mkdir()
    probe = in_a_pod(data, mounted, "launcher", "--probe", str(seed), "--emulation")
    newer = hashlib.sha256(b"a later version").hexdigest()
    (data / "data" / newer).mkdir()
    with subprocess.Popen(probe, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        name = tree.name
        # No longer the shell that mounts, whose words name the place as well.
        started = str(mounted / "kvedge")
        wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[0] == started, "it runs", 20)
        (data / "launcher").unlink()
        (data / "launcher").symlink_to(data / "data" / newer)
        assert find_used_trees({name, newer}, None) == {name}
        assert remove_unused_trees(data / "data", None, newer) == []
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert list(seed.iterdir())
    # What it has started may take a moment to be gone.
    wait_until(lambda: remove_unused_trees(data / "data", None, newer) == [name], "its tree is removed", 20)
