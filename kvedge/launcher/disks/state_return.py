"""The state of a VM that was restored comes out of the archive in its claim, once, and before the guest has it.

Called by `lasting_state`, in the preparation of a launcher, as the guest's user. The archive is `disk.img`, and goes
when all is in place and on the medium: a preparation that is killed before that is made again as a whole, and one that
comes later finds no archive, and leaves alone what the guest has written since.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from itertools import islice
from typing import Final

from kvedge.resources.disks.claim_places import IMAGE_FILE
from kvedge.storage.beneath import hold_directory, open_regular
from kvedge.storage.state_archive import NVRAM, TPM, names_in, unpack
from kvedge.storage.state_files import (
    NVRAM_DIRECTORY,
    TPM_COMING,
    TPM_DIRECTORY,
    TPM_POINTER,
    TPM_STATE,
    VARIABLES,
)

_RETURNING: Final = "returning"
_MOST_FILES: Final = 256
_MODE: Final = 0o700


def return_state(claim: str, vm: str) -> None:
    """Have the state of an archive in place, in the claim at a path; nothing happens where there is none.

    Raises:
        BadState: the archive is damaged.
        OSError: of the claim.
    """
    with hold_directory(claim) as folder:
        try:
            archive = open_regular(folder, IMAGE_FILE)
        except FileNotFoundError:
            return
    try:
        # A newer state has come from the archive just now, or is of a launcher of an earlier version, which knows
        # nothing of archives, and whose guest may have sealed its keys in it.
        if not _has_newer(claim, os.fstat(archive).st_mtime_ns):
            _unpack(archive, f"{claim}/{_RETURNING}", vm)
            _exchange(claim)
    finally:
        os.close(archive)
    os.unlink(f"{claim}/{IMAGE_FILE}")
    _sync(claim)


def _has_newer(claim: str, moment_ns: int) -> bool:
    """Whether a claim has a state that was written after a moment, and no exchange of it has begun."""
    names = os.listdir(claim)
    if _RETURNING in names:
        return False
    ours = [name for name in names if name in (NVRAM_DIRECTORY, TPM_DIRECTORY) or name.startswith(TPM_COMING)]
    files = (f"{place}/{name}" for each in ours for place, _, found in os.walk(f"{claim}/{each}") for name in found)
    return any(os.lstat(path).st_mtime_ns > moment_ns for path in islice(files, _MOST_FILES))


def _unpack(archive: int, place: str, vm: str) -> None:
    """Make the directories anew beneath a place of their own, on the medium."""
    if os.path.lexists(place):
        shutil.rmtree(place)
    paths = {NVRAM: f"{place}/{NVRAM_DIRECTORY}/{vm}{VARIABLES}", TPM: f"{place}/{TPM_DIRECTORY}/{TPM_STATE}"}
    os.mkdir(place, _MODE)
    with contextlib.ExitStack() as stack:
        targets = {}
        for name in names_in(archive):
            os.makedirs(os.path.dirname(paths[name]), _MODE)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            targets[name] = os.open(paths[name], flags, 0o600)
            stack.callback(os.close, targets[name])
        unpack(archive, targets)
        for target in targets.values():
            os.fsync(target)
    for directory, _, _ in os.walk(place):
        _sync(directory)


def _exchange(claim: str) -> None:
    """The state that has come is the VM's, and whatever lay there goes."""
    for name in os.listdir(claim):
        if name in (NVRAM_DIRECTORY, TPM_DIRECTORY) or name.startswith(TPM_COMING):
            shutil.rmtree(f"{claim}/{name}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{claim}/{TPM_POINTER}")
    for name in (NVRAM_DIRECTORY, TPM_DIRECTORY):
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{claim}/{_RETURNING}/{name}", f"{claim}/{name}")
    os.rmdir(f"{claim}/{_RETURNING}")
    # Before the archive goes.
    _sync(claim)


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
