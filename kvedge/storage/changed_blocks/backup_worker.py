"""The process that writes a backup: disks as a backup job serves them, each into an image. The hidden subcommand
`write-backup`, started by the launcher.

Its job is the first line of its standard input. It prints how far it is, as qemu-img does, and ends with 0 when all
images are whole and on stable storage, with 4 when they have no room, and otherwise with its last words on standard
error.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from kvedge.resources.codec import DecodeError, KubeStruct, decode_json
from kvedge.storage.changed_blocks.block_runs import CLUSTER, BlockRuns, choose_runs, join_extents
from kvedge.storage.changed_blocks.nbd_client import ALLOCATION, NbdClient
from kvedge.storage.changed_blocks.qcow2_layout import plan_layout, render_header, render_tables

DONE, FAILED, NO_ROOM = 0, 1, 4
_PIECE: Final = 2 << 20
_MEMORY: Final = 256 << 20
_LONGEST_JOB: Final = 1 << 20
_READS_AS_ZEROS: Final = 2
_CHANGED: Final = 1


class SavedDisk(KubeStruct, kw_only=True):
    """One disk: its export, where its image goes, and the export and the bitmap that tell its changes, if they do."""

    export: str
    path: str
    changes: str = ""
    bitmap: str = ""


class BackupJob(KubeStruct, kw_only=True):
    """All disks of one backup, and the socket that serves them."""

    socket: str
    disks: tuple[SavedDisk, ...] = ()


def main() -> NoReturn:
    """Carry out the job of standard input."""
    os.umask(0o027)
    _, given = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MEMORY if given == resource.RLIM_INFINITY else min(_MEMORY, given)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        job = decode_json(BackupJob, sys.stdin.buffer.readline(_LONGEST_JOB))
        save_disks(job, lambda percent: print(f"({percent}/100%)", end="\r", flush=True))
    except (OSError, DecodeError) as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(NO_ROOM if isinstance(error, OSError) and error.errno == errno.ENOSPC else FAILED)
    os._exit(DONE)


def save_disks(job: BackupJob, tell: Callable[[int], None]) -> None:
    """Write all images. Raises OSError; then some are not whole."""
    for number, disk in enumerate(job.disks):
        done = number * 100

        def tell_part(percent: int, done: int = done) -> None:
            tell((done + percent) // len(job.disks))

        _save_disk(job.socket, disk, tell_part)
    for directory in {os.path.dirname(disk.path) for disk in job.disks}:
        sync_directory(directory)


def sync_directory(path: str) -> None:
    """Have the names in a directory on stable storage. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _save_disk(socket: str, disk: SavedDisk, tell: Callable[[int], None]) -> None:
    changed = None
    if disk.changes:
        with NbdClient(socket, disk.changes, f"qemu:dirty-bitmap:{disk.bitmap}") as source:
            changed = join_extents((at, count) for at, count, flags in source.extents() if flags & _CHANGED)
            told = source.size
    with NbdClient(socket, disk.export, ALLOCATION) as source:
        if disk.changes and told != source.size:
            raise OSError(errno.EIO, f"disk {disk.export} and what is told of its changes differ in size")
        held = join_extents((at, count) for at, count, flags in source.extents() if not flags & _READS_AS_ZEROS)
        write_image(disk.path, source.size, choose_runs(held, changed), source.read, tell)


def write_image(
    path: str, size: int, runs: BlockRuns, read: Callable[[int, int], bytearray], tell: Callable[[int], None]
) -> None:
    """Write a new image with these runs of a disk, and have it on stable storage. Raises OSError."""
    layout = plan_layout(size, runs)
    image = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    try:
        space = os.fstatvfs(image)
        if space.f_bavail * space.f_frsize < layout.clusters * CLUSTER:
            needed = layout.clusters * CLUSTER
            raise OSError(errno.ENOSPC, f"the image needs {needed} bytes, and fewer are free", os.path.basename(path))
        os.ftruncate(image, layout.clusters * CLUSTER)
        for offset, text in render_tables(layout, runs):
            _write(image, text, offset)
        at = layout.data_at * CLUSTER
        done = 0
        for offset, length in _pieces(runs, size):
            _write(image, read(offset, length), at + done)
            # The last cluster of a disk may be shorter.
            done += -(-length // CLUSTER) * CLUSTER
            tell(done * 100 // (layout.data_clusters * CLUSTER))
        os.fsync(image)
        _write(image, render_header(layout), 0)
        os.fsync(image)
    finally:
        os.close(image)


def _pieces(runs: BlockRuns, size: int) -> Iterator[tuple[int, int]]:
    for run in runs.data:
        offset, end = run.start * CLUSTER, min(run.end * CLUSTER, size)
        while offset < end:
            length = min(_PIECE, end - offset)
            yield offset, length
            offset += length


def _write(image: int, text: bytes | bytearray, offset: int) -> None:
    view = memoryview(text)
    while view:
        count = os.pwrite(image, view, offset)
        view, offset = view[count:], offset + count
