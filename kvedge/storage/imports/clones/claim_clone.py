"""A disk copied from another claim, which is mounted read-only beside the target.

Called by the import's run. Blocks are shared where both are files of one file system that can; else what holds data is
copied, and holes and zeros stay holes. Reads the source, writes the target.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.resources.types.import_job import CloneSource, CloneTarget
from kvedge.runtime.linux.allocation import device_size
from kvedge.storage.arriving_mark import read_arriving
from kvedge.storage.beneath import hold_directory, hold_open_beneath, open_regular
from kvedge.storage.imports.clones.clone_sender import send_disk
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sinks.import_target import FileTarget, ImportTarget, check_fits
from kvedge.storage.sparse_file import find_data_extents, share_blocks
from kvedge.storage.state_archive import NVRAM, TPM, BadState, pack
from kvedge.storage.state_files import has_state, open_state

_CHUNK: Final = 1 << 20
_OF_EXT4: Final = "lost+found"


def clone(source: CloneSource, target: ImportTarget, directory: Path, device: Path, progress: ImportProgress) -> int:
    """Copy the disk; returns the size of the guest's disk.

    Raises:
        ImportFailure: when the source has no disk, or a larger one than fits.
        OSError: of either claim.
    """
    with _open(source, directory, device) as opened:
        size = device_size(opened) if source.block else os.fstat(opened).st_size
        check_fits(target, size)
        target.begin(size)
        progress.expect(size)
        is_file = not source.block and isinstance(target, FileTarget)
        if not (is_file and share_blocks(opened, target.descriptor())):
            # A device does not tell where its data are.
            extents = [(0, size)] if source.block else find_data_extents(opened, size)
            for start, end in extents:
                _copy(opened, target, start, min(end, size), progress)
    return target.finish(size)


def send(
    source: CloneSource, target: CloneTarget, tls: ssl.SSLContext, places: tuple[Path, Path], progress: ImportProgress
) -> int:
    """Send the disk to the worker that fills the claim; returns its size. `places` are a directory and a device.

    Raises:
        ImportFailure: when the source has no disk, or the worker refuses it.
        OSError: of the claim.
    """
    with _open(source, *places) as opened:
        size = device_size(opened) if source.block else os.fstat(opened).st_size
        send_disk((opened, size, source.block), target, tls, progress)
    return size


@contextmanager
def _open(source: CloneSource, directory: Path, device: Path) -> Iterator[int]:
    if source.block:
        opened = os.open(device, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    else:
        with hold_directory(directory) as folder:
            try:
                if read_arriving(folder):
                    raise ImportFailure(
                        f"{IMAGE_FILE} of the source claim is the unfinished copy of a disk; name one with a disk"
                    )
                opened = _open_state(folder, expected=source.state) or open_regular(folder, IMAGE_FILE)
            except BadState as error:
                raise ImportFailure(f"the source claim's state of TPM and UEFI firmware is none: {error}") from error
            except OSError as error:
                raise ImportFailure(
                    f"the source claim has no {IMAGE_FILE} that can be read ({error.strerror}); name one with a disk"
                ) from error
    try:
        yield opened
    finally:
        os.close(opened)


def _open_state(folder: int, *, expected: bool) -> int | None:
    """The state of a TPM and UEFI firmware as one file, of a claim that keeps that and no disk; None for another one.

    A claim that a restore has filled has that file already, until its VM starts. That of a VM that has not started yet
    is empty, and so is its state: `expected` says that the claim is for one.
    """
    with contextlib.suppress(FileNotFoundError), hold_open_beneath(folder, IMAGE_FILE, os.O_PATH):
        return None
    if not has_state(folder) and not (expected and _is_empty(folder)):
        return None
    packed = os.memfd_create("state", os.MFD_CLOEXEC)
    try:
        with open_state(folder) as (variables, tpm):
            found = {NVRAM: variables, TPM: tpm}
            pack({name: file for name, file in found.items() if file is not None}, packed)
    except BaseException:
        os.close(packed)
        raise
    return packed


def _is_empty(folder: int) -> bool:
    # The one that is held is open as a place alone.
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(opened) as found:
            return all(each.name == _OF_EXT4 for each in islice(found, 2))
    finally:
        os.close(opened)


def _copy(source: int, target: ImportTarget, start: int, end: int, progress: ImportProgress) -> None:
    position = start
    while position < end:
        data = os.pread(source, min(_CHUNK, end - position), position)
        if not data:
            raise ImportFailure("the source claim's disk became shorter while it was copied: stop what uses it")
        target.write(position, data)
        position += len(data)
        progress.reach(position)
