"""A box from the one file inside another Debian: its libvirt, its QEMU, its C library, and no init.

Needs root, and trees made with mmdebstrap, which take minutes and a network: they are kept in the tests' cache, and
made only when KVEDGE_TEST_DEBIAN is set. Called by machine tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

import yaml

from kvedge.resources.codec import JsonObject
from tests.support.box import Box
from tests.support.systemd_host import TREES, debian_tree
from tests.support.waiting import wait_until

# The tree is mounted on itself, so that / is a mount point there, as it is on each host.
_ENTER: Final = """
set -e
tree=$1 shared=$2
mount --make-rprivate /
mount --bind "$tree" "$tree"
mount --rbind /sys "$tree/sys"
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
mount -t tmpfs tmpfs "$tree/run"
mount -t tmpfs -o noexec tmpfs "$tree/tmp"
mkdir -p "$tree$shared"
mount --bind "$shared" "$tree$shared"
cp /etc/resolv.conf "$tree/etc/resolv.conf"
exec chroot "$tree" sleep infinity
"""


def cached_tree(suite: str) -> Path | None:
    """The file system of a Debian with libvirt and QEMU; None when it is not there and nobody asked to make it."""
    wanted = bool(os.environ.get("KVEDGE_TEST_DEBIAN"))
    return debian_tree(suite) if wanted or (TREES / f"host-{suite}").is_dir() else None


class DebianBox(Box):
    """`directory` is seen at the same path inside; the file lies in it."""

    def __init__(self, tree: Path, directory: Path, program: Path, pod_cidr: str) -> None:
        super().__init__(directory / "data", pod_cidr, program=[])
        self.notify_directory = self._directory = directory
        shutil.copy(program, directory / "kvedge")
        # The namespaces' first process: everything in there ends with it.
        self._first = subprocess.Popen(
            [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                _ENTER,
                "sh",
                str(tree),
                str(directory),
            ]
        )
        wait_until(
            lambda: self._inside(self._first.pid) and self._command_of(self.first_pid) == "sleep", "a chroot", 60
        )
        enter = ["nsenter", "-t", str(self.first_pid), "-m", "-p", "-r", "-w", "--"]
        self.program = [*enter, "env", f"KVEDGE_DATA_DIR={self.data_dir}", str(directory / "kvedge")]
        self.prefix = enter

    @property
    def first_pid(self) -> int:
        """The first process of the namespaces, as seen from outside."""
        return self._inside(self._first.pid)[0]

    def run(self, *command: str) -> str:
        """A command's output, from inside."""
        return subprocess.run([*self.prefix, *command], capture_output=True, text=True, check=True).stdout

    def import_image(self, disk: Path, name: str) -> None:
        """As for any box, from where it can be seen."""
        seen = self._directory / "disk"
        shutil.copy(disk, seen)
        super().import_image(seen, name)
        seen.unlink()

    def apply(self, manifest: JsonObject | str) -> None:
        """As for any box, from where it can be seen."""
        seen = self._directory / "manifest.yaml"
        seen.write_text(manifest if isinstance(manifest, str) else yaml.safe_dump(manifest))
        self.cli("apply", "-f", str(seen))
        seen.unlink()

    def end(self, number: int = signal.SIGTERM) -> None:
        """As for any box; nsenter itself hands no signals on."""
        assert self.process is not None
        os.kill(self._inside(self.process.pid)[0], number)
        self.process.wait(60)
        self.process = None

    def remove(self) -> None:
        """Everything, and the namespaces."""
        try:
            super().remove()
        finally:
            self._first.kill()
            self._first.wait()

    @staticmethod
    def _inside(pid: int) -> list[int]:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    @staticmethod
    def _command_of(pid: int) -> str:
        return Path(f"/proc/{pid}/comm").read_text().strip()
