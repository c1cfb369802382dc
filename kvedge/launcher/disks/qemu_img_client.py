"""The one door to `qemu-img`: new images, with every format stated, within limits.

Called by `disks`. Starts a process for each image; the image appears under its name when it is whole, or not at all.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import DiskFull, LibvirtFailed, Unanswered

if TYPE_CHECKING:
    # It has msgspec, which a launcher does without, also one that copies a disk.
    from kvedge.launcher.domain.context import ImageFormat

QEMU_IMG: Final = "/usr/bin/qemu-img"
# Making an image takes milliseconds; a slow card a little longer.
SECONDS: Final = 30
# An image without data is a few hundred KB, also for a large disk.
_LIMITS: Final = ("/usr/bin/prlimit", f"--cpu={SECONDS}", "--as=1073741824", "--core=0")
# Less than this and a failure is no surprise.
_FULL_BYTES: Final = 1 << 20


def create_qcow2(path: str, size: int, backing: tuple[str, ImageFormat] | None = None) -> None:
    """Make a qcow2 of `size` bytes at `path`, over a backing file whose format is given.

    Raises:
        DiskFull: when there is no room.
        Unanswered: when it took too long.
        LibvirtFailed: when qemu-img failed otherwise; with its words.
    """
    staged = f"{path}.new"
    command = [*_LIMITS, QEMU_IMG, "create", "-q", "-f", "qcow2"]
    if backing is not None:
        # -u: the backing file, which somebody else made, is not opened; its size is known.
        command += ["-u", "-b", backing[0], "-F", backing[1]]
    command += [staged, str(size)]
    try:
        _run(command, path)
        os.rename(staged, path)
    finally:
        if os.path.exists(staged):
            os.unlink(staged)


def _run(command: list[str], path: str) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unanswered(f"qemu-img took longer than {SECONDS} s to make {path}") from error
    if done.returncode == 0:
        return
    said = done.stderr[-512:].decode(errors="replace").strip()
    space = os.statvfs(os.path.dirname(path))
    if space.f_bavail * space.f_frsize < _FULL_BYTES or space.f_favail == 0:
        raise DiskFull(path, said)
    raise LibvirtFailed(f"making {path}", done.returncode, 0, said)
