"""The file that a dump of a guest's memory is written into: made in the claim, handed to the launcher, named at last.

Called by `hotplug_volumes`. Works in the claim of an attachment Pod in a thread that acts as the launcher's user: what
that user may not do there is not done, and nobody else can read a dump, which holds every secret of its guest. The
launcher sees this one file and nothing else of the claim. While it is written the file has a name of its own: whoever
sees a dump by its name sees a whole one. Earlier dumps go once the new one is whole; they go before only where there is
no room for both.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.own_thread import in_own_thread
from kvedge.handler.volumes.claim_image import ImageRefused
from kvedge.handler.volumes.volume_hand_over import attach_file, check_name, hold_hotplug_directory, list_names
from kvedge.resources.disks.hotplug_places import CLAIM_PLACE, DUMP_SUFFIX
from kvedge.resources.disks.memory_dumps import is_dump_file, is_partial, partial_name
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.runtime.linux.mounts import copy_mount
from kvedge.runtime.linux.namespaces import CLONE_NEWNS, setns
from kvedge.runtime.linux.privileges import act_as
from kvedge.storage.beneath import AS_ROOT, hold_directory, hold_open_beneath
from kvedge.storage.blank_image import count_free_bytes

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY
_MODE: Final = 0o600
# QEMU writes a dump without a pause: a file that was left alone for so long is of a run that has ended.
_ABANDONED_SECONDS: Final = 3600.0
_MEBIBYTE: Final = 1 << 20
# What is done in a claim, by a descriptor of its directory.
_Work: TypeAlias = Callable[[int], None]


def hand_over_dump(name: str, vmi_uid: str, needed: int, source: HeldProcess, launcher: HeldProcess) -> None:
    """Make an empty file in the claim, where at least `needed` bytes are free, and put it into the launcher's Pod.

    Raises:
        ImageRefused: when there is no room, the launcher's user may not, or the name is no volume's.
        OSError: when the kernel refuses.
    """
    check_name(name)
    with source.namespace("mnt") as theirs, launcher.namespace("mnt") as ours:
        _in_claim(source, partial(_make_file, vmi_uid=vmi_uid, needed=needed))
        place = f"{name}{DUMP_SUFFIX}"
        with hold_hotplug_directory(launcher) as directory:
            os.close(os.open(place, os.O_CREAT | os.O_RDONLY | os.O_NOFOLLOW, 0o600, dir_fd=directory))
        in_own_thread(partial(_mount_file, partial_name(vmi_uid), place, theirs, ours))


def finish_dump(source: HeldProcess, vmi_uid: str, file: str) -> None:
    """Give a dump that is whole its name, and delete earlier ones; may be repeated.

    Raises:
        ImageRefused: when nothing was written, or the name is none.
        OSError: when the kernel refuses.
    """
    if not is_dump_file(file) or "/" in file:
        raise ImageRefused(f"{file[:100]!r} is no name of a dump")
    _in_claim(source, partial(_name_file, vmi_uid=vmi_uid, file=file))


def discard_dump(source: HeldProcess, vmi_uid: str) -> None:
    """Delete what was written of a dump that is not whole. Raises OSError."""
    _in_claim(source, lambda claim: _remove(claim, partial_name(vmi_uid)))


def _in_claim(source: HeldProcess, work: _Work) -> None:
    with (
        source.root() as root,
        hold_open_beneath(root, CLAIM_PLACE.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as claim,
    ):
        in_own_thread(partial(_work_as_guest, claim, work))


def _work_as_guest(claim: int, work: _Work) -> None:
    act_as(LAUNCHER_UID, LAUNCHER_GID)
    try:
        work(claim)
    except PermissionError as error:
        facts = os.fstat(claim)
        raise ImageRefused(
            f"user {LAUNCHER_UID} may not write the claim; it belongs to {facts.st_uid}:{facts.st_gid} with mode"
            f" {stat.S_IMODE(facts.st_mode):04o}: have it belong to group {LAUNCHER_GID} with mode 0770"
        ) from error


def _make_file(claim: int, *, vmi_uid: str, needed: int) -> None:
    own = partial_name(vmi_uid)
    names = list_names(claim)
    for name in filter(is_partial, names):
        if name == own or _is_abandoned(claim, name):
            _remove(claim, name)
    if count_free_bytes(claim) < needed:
        for name in filter(is_dump_file, names):
            _remove(claim, name)
    free = count_free_bytes(claim)
    if free < needed:
        raise ImageRefused(
            f"a dump of the guest's memory may take {_mebibytes(needed)}, and {_mebibytes(free)} are free in the claim;"
            " delete what else is in it, or use a larger one"
        )
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with hold_open_beneath(claim, own, flags, mode=_MODE):
        pass


def _name_file(claim: int, *, vmi_uid: str, file: str) -> None:
    own = partial_name(vmi_uid)
    names = list_names(claim)
    if own in names:
        facts = os.stat(own, dir_fd=claim, follow_symlinks=False)
        if not stat.S_ISREG(facts.st_mode) or not facts.st_size:
            raise ImageRefused("nothing was written into the file of the dump")
        os.rename(own, file, src_dir_fd=claim, dst_dir_fd=claim)
        _sync(claim)
    elif file not in names:
        raise ImageRefused("the file of the dump has gone from its claim")
    earlier = [name for name in names if is_dump_file(name) and name != file]
    for name in earlier:
        _remove(claim, name)
    if earlier:
        _sync(claim)


def _sync(claim: int) -> None:
    """Have the directory's names on disk."""
    with hold_open_beneath(claim, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        os.fsync(opened)


def _is_abandoned(claim: int, name: str) -> bool:
    try:
        changed = os.stat(name, dir_fd=claim, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return False
    return time.time() - changed > _ABANDONED_SECONDS


def _remove(claim: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=claim)
    except (FileNotFoundError, IsADirectoryError):
        # It is gone, or was never a dump.
        return


def _mount_file(name: str, place: str, theirs: int, ours: int) -> None:
    """Runs in a thread of its own, in the attachment Pod's mount namespace first and then in the launcher's."""
    setns(theirs, CLONE_NEWNS)
    with (
        hold_directory("/") as root,
        hold_open_beneath(root, CLAIM_PLACE.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as claim,
        hold_open_beneath(claim, name, os.O_PATH | os.O_NOFOLLOW) as file,
    ):
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != LAUNCHER_UID or facts.st_nlink != 1:
            raise OSError(errno.EEXIST, "something else stands in the place of the dump's file", name)
        copied = copy_mount(file, recursive=False)
    attach_file(copied, place, ours)


def _mebibytes(size: int) -> str:
    return f"{size // _MEBIBYTE}MiB"
