"""Claims of this machine for a guest that moves: a directory, a small file system, or a loop device.

For the machine tests of migration; needs root. A claim goes with the test's stack.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.launcher_pod import QEMU_USER

MIB = 1 << 20
SIZE = 24 * MIB
VOLUME = "data"


@dataclass(frozen=True)
class MovingClaim:
    """A claim that a Pod has as volume `data`: `image` is the disk as root sees it."""

    name: str
    image: Path
    block: bool = False

    @property
    def mounting(self) -> str:
        """Shell for a Pod that has it."""
        if not self.block:
            place = f"/run/kubevirt-private/vmi-disks/{VOLUME}"
            return f"mkdir -p {place}; mount --bind {self.image.parent} {place}"
        minor = os.minor(self.image.stat().st_rdev)
        return f"mknod -m 600 /dev/{VOLUME} b 7 {minor}; chown {QEMU_USER}:{QEMU_USER} /dev/{VOLUME}"

    @property
    def info(self) -> dict[str, Any]:
        """What the VMI's status has of it."""
        mode = "Block" if self.block else "Filesystem"
        return {"claimName": self.name, "volumeMode": mode, "requests": {"storage": str(SIZE)}}

    def read(self) -> bytes:
        """The guest's disk."""
        with self.image.open("rb", buffering=0) as image:
            # What this machine has read before of a device is not what is on it now.
            os.posix_fadvise(image.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            content = b""
            while len(content) < SIZE and (piece := image.read(SIZE - len(content))):
                content += piece
        return content

    def names(self) -> list[str]:
        """What lies in its file system."""
        return sorted(os.listdir(self.image.parent))


@dataclass
class MovingClaims:
    """Claims below a directory."""

    directory: Path
    stack: ExitStack
    _made: list[str] = field(default_factory=list)

    def filesystem(self) -> MovingClaim:
        """An empty one, as fsGroup leaves it."""
        place = self._place()
        os.chown(place, 0, QEMU_USER)
        place.chmod(0o2770)
        return MovingClaim(place.name, place / "disk.img")

    def small(self, size: int) -> MovingClaim:
        """As :func:`filesystem`, with room for so many bytes."""
        place = self._place()
        options = f"size={size},mode=2770,gid={QEMU_USER}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "kvedge-claim", str(place)], check=True)
        self.stack.callback(subprocess.run, ["umount", "-l", str(place)], check=False)
        return MovingClaim(place.name, place / "disk.img")

    def device(self, size: int, at: int) -> MovingClaim:
        """A device of that size, with something at a place where nothing begins."""
        backing = self._place() / "backing"
        with backing.open("wb") as file:
            file.truncate(size)
            file.seek(at)
            file.write(b"left over" * 1000)
        found = subprocess.run(["losetup", "-f", "--show", str(backing)], check=True, capture_output=True, text=True)
        device = found.stdout.strip()
        self.stack.callback(subprocess.run, ["losetup", "-d", device], check=False)
        return MovingClaim(backing.parent.name, Path(device), block=True)

    def _place(self) -> Path:
        place = self.directory / f"claim{len(self._made) + 1}"
        self._made.append(place.name)
        place.mkdir()
        return place
