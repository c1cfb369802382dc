"""The processes that read disks as they were: `qemu-img`, which writes the copy of one, and our own, which writes the
images of a backup. Both are behind everything else that the host does.

Started by `disk_copies` and `backup_images`. They read from the socket of the backup job, or an image that nobody
writes, and write what the handler has put into the Pod. Zeros are not written to a new image.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from kvedge.launcher.copies.copy_plan import read_percent
from kvedge.launcher.disks.qemu_img_client import QEMU_IMG
from kvedge.launcher.launcher_errors import DiskFull, LibvirtFailed

# The guests' own reads and writes go first, and their CPUs. The limit is for an image that would make it grow. With a
# launcher that is killed it goes as well: the handler could not take its target back.
_BEHIND: Final = (
    *("/usr/bin/setpriv", "--pdeathsig", "KILL"),
    *("/usr/bin/ionice", "-c", "3", "/usr/bin/nice", "-n", "10"),
    *("/usr/bin/prlimit", "--as=2147483648", "--core=0"),
)
_PIECE: Final = 4096
_LONGEST: Final = 512
# The code with which our own process says that there is no room.
NO_ROOM: Final = 4


class Source(NamedTuple):
    """What is read: in qemu-img's words, and whether somebody else has it open."""

    options: str
    shared: bool = False


def served_at(socket: str, export: str) -> Source:
    """A disk that the backup job serves."""
    where = f"file.server.type=unix,file.server.path={_quote(socket)}"
    return Source(f"driver=raw,file.driver=nbd,file.export={export},{where}")


def image_at(path: str, *, block: bool) -> Source:
    """An image that no guest writes, although one has it open."""
    return Source(_image(path, block=block), shared=True)


def _image(path: str, *, block: bool) -> str:
    return f"driver=raw,file.driver={'host_device' if block else 'file'},file.filename={_quote(path)}"


def _quote(path: str) -> str:
    """A comma separates options; twice it is itself."""
    return path.replace(",", ",,")


def prepare_image(path: str, size: int) -> None:
    """Give a new image its size, without a byte in it. Raises OSError."""
    image = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # What an attempt before has left would shine through.
        os.ftruncate(image, 0)
        os.ftruncate(image, size)
    finally:
        os.close(image)


def sync_target(path: str) -> None:
    """Have all of a copy on stable storage. Raises OSError."""
    target = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(target)
    finally:
        os.close(target)


class QuietProcess:
    """A process that copies, and says how far it is."""

    def __init__(self, command: Sequence[str], said_first: bytes = b"") -> None:
        """Begin, and tell it its first line. Raises OSError."""
        self._process = subprocess.Popen(
            [*_BEHIND, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._said = dict.fromkeys(self._streams(), b"")
        for stream in self._said:
            os.set_blocking(stream, False)
        self.percent = 0
        assert self._process.stdin is not None
        try:
            with self._process.stdin as stdin:
                stdin.write(said_first)
        except BrokenPipeError:
            # It has ended; how, is told by its code.
            pass

    def look(self) -> bool:
        """Whether it has ended; `percent` is what it has said by now."""
        has_ended = self._process.poll() is not None
        for stream in self._said:
            self._listen(stream)
        found = read_percent(self._said[self._streams()[0]].decode(errors="replace").split("\r"))
        self.percent = self.percent if found is None else max(self.percent, found)
        return has_ended

    def check(self) -> None:
        """Whether it has copied all, once it has ended.

        Raises:
            DiskFull: when the target has no room.
            LibvirtFailed: when it failed otherwise; with its words.
        """
        code = self._process.returncode
        if code == 0:
            return
        said = self._said[self._streams()[1]].decode(errors="replace").strip()
        said = "".join(character if character.isprintable() else " " for character in said)
        if os.strerror(errno.ENOSPC) in said or code == NO_ROOM:
            raise DiskFull("the copy of the disk", said)
        raise LibvirtFailed("copying the disk", code, 0, said or f"the process that copies ended with {code}")

    def end(self) -> None:
        """End it, whatever it has done, and wait until it is gone."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _streams(self) -> tuple[int, int]:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        return self._process.stdout.fileno(), self._process.stderr.fileno()

    def _listen(self, stream: int) -> None:
        """What was printed since; the last of it is kept."""
        while piece := _read(stream):
            self._said[stream] = (self._said[stream] + piece)[-_LONGEST:]


class CopyProcess(QuietProcess):
    """One disk on its way."""

    def __init__(self, source: Source, target: str, *, block: bool) -> None:
        """Begin. Raises OSError."""
        command = [QEMU_IMG, "convert", "-p", "-n", "-t", "writeback", "--image-opts", "--target-image-opts"]
        if source.shared:
            command.append("-U")
        if not block:
            # It is all holes, which read as zeros. A device holds what it held.
            command.append("--target-is-zero")
        super().__init__([*command, source.options, _image(target, block=block)])


class BackupProcess(QuietProcess):
    """All disks of a backup on their way; `job` is what the process is told."""

    def __init__(self, job: bytes) -> None:
        """Begin. Raises OSError."""
        program = [sys.executable, *([] if getattr(sys, "frozen", False) else ["-P", "-m", "kvedge"])]
        super().__init__([*program, "write-backup"], job + b"\n")


def _read(stream: int) -> bytes:
    try:
        return os.read(stream, _PIECE)
    except BlockingIOError:
        return b""
