"""`virtctl guestfs`, unmodified, on one box: a Pod without an image's content, with the host's own libguestfs."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.standalone.agent.node.node_manifest import has_guestfs
from tests.support.api_servers import Kubectl
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import a_claim
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not has_guestfs(), reason="needs libguestfs-tools, and a fixed appliance where virtctl looks"),
]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.66.0/24", "local/guest:1") as found:
        yield found


def talk(command: list[str], *lines: str, seconds: float = 60.0) -> str:
    """What is seen on a terminal while these lines are typed into a program that then ends."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    os.close(follower)
    seen, left, deadline = b"", list(lines), time.monotonic() + seconds
    try:
        while process.poll() is None and time.monotonic() < deadline:
            if select.select([leader], [], [], 0.5)[0]:
                try:
                    seen += os.read(leader, 65536)
                except OSError:
                    break
            elif left and b"prompt" in seen:
                os.write(leader, left.pop(0).encode() + b"\n")
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    return seen.decode(errors="replace")


def test_a_shell_has_the_claim_and_the_host_s_libguestfs(box: Box, tmp_path: Path) -> None:
    box.apply(a_claim("looked-at"))
    virtctl = Kubectl(box.kubeconfig, "virtctl")
    command = [str(virtctl.path), "--kubeconfig", str(box.kubeconfig), "guestfs", "looked-at", "--kvm=false"]
    lines = ("id -u; pwd", "guestfish --version", "echo mine >/disk/file", "touch /usr/x", "exit")
    seen = talk(command, *lines)
    assert "Use image: kvedge.local/guestfs:v1" in seen
    assert "107" in seen
    assert "/disk" in seen
    assert "guestfish 1." in seen, seen
    assert "Read-only file system" in seen
    claim = box.client.get(PersistentVolumeClaim, "default", "looked-at")
    (place,) = box.data_dir.glob(f"volumes/{claim.metadata.uid}")
    assert (place / "file").read_text() == "mine\n"
    wait_until(lambda: box.client.list(Pod, "default") == [], "virtctl has taken its Pod away")
