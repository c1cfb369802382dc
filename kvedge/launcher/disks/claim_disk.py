"""The disk on a claim: the image in its file system, made when it is absent, or its device node.

Called by `disks`, as the guest's user. The disk of a hostDisk is its file, which the handler has made if it was to be.
What lies there comes from others: no link is followed, nothing but a regular file or a block device is used, and an
image that exists is never changed, neither its bytes nor its owner.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, NoReturn

from kvedge.launcher.disks.arriving_disk import check_device, make_arriving, refuse_arriving
from kvedge.launcher.disks.device_holder import hold_device
from kvedge.launcher.disks.disk_facts import (
    device_block_size,
    discard_granularity,
    has_direct_io,
    read_block_size,
)
from kvedge.launcher.disks.disk_plan import ClaimPlan
from kvedge.launcher.disks.image_locks import is_locked
from kvedge.launcher.disks.returning_disk import find_returning
from kvedge.launcher.domain.context import DiskSource
from kvedge.launcher.launcher_errors import ClaimUnusable, DiskFull
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.storage.beneath import hold_directory, open_beneath
from kvedge.storage.blank_image import MEBIBYTE, count_free_bytes, explain_smaller, fitting_bytes, make_image, no_room

_BLOCK: Final = 512
# The Pod has the claim otherwise than the controller believed when it made the Pod.
_ANEW: Final = "restart the VM: its Pod is made anew"


def claim_disk(plan: ClaimPlan, options: LauncherOptions) -> DiskSource:
    """The disk, which is there afterwards.

    Raises:
        ClaimUnusable: when what lies there cannot be the disk, or another guest has it; it may be mended.
        DiskFull: when there is no room for an image.
        Unanswered: when the monitor does not say whether it holds a device.
    """
    if not plan.block:
        return _open_image(plan)
    source = _find_device(plan)
    if plan.exclusive and plan.writes:
        _hold(plan, options)
    return source


def _hold(plan: ClaimPlan, options: LauncherOptions) -> None:
    number = hold_device(options.public_directory, plan.path)
    if number == errno.EBUSY:
        raise ClaimUnusable(
            plan.field,
            plan.claim,
            f"the device of volume {plan.volume} is in use on this node, by another VM or by the node itself",
            "it starts by itself once the device is free; set shareable: true on the disks of all VMs that share it",
        )
    if number:
        raise ClaimUnusable(plan.field, plan.claim, f"the device of volume {plan.volume}: {os.strerror(number)}")


def _find_device(plan: ClaimPlan) -> DiskSource:
    try:
        found = os.stat(plan.path, follow_symlinks=False)
    except FileNotFoundError:
        raise ClaimUnusable(
            plan.field,
            plan.claim,
            f"neither found block device nor regular file for volume {plan.volume}",
            _ANEW,
        ) from None
    if not stat.S_ISBLK(found.st_mode):
        raise ClaimUnusable(plan.field, plan.claim, f"found {plan.path}, but it's not a block device", _ANEW)
    device = _open_device(plan)
    try:
        if plan.copied:
            check_device(device, plan)
        block_size, granularity = device_block_size(device), discard_granularity(device)
    finally:
        os.close(device)
    return DiskSource(
        path=plan.path,
        format="raw",
        block=True,
        readonly=plan.read_only,
        thick=plan.thick,
        block_size=block_size,
        discard_granularity=granularity,
    )


def _open_device(plan: ClaimPlan) -> int:
    flags = (os.O_RDWR if plan.writes else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(plan.path, flags)
    except PermissionError:
        raise ClaimUnusable(
            plan.field,
            plan.claim,
            f"the device of volume {plan.volume} cannot be opened by user {os.getuid()}",
            "have the container runtime hand devices to the Pod's user (device_ownership_from_security_context)",
        ) from None
    except OSError as error:
        raise ClaimUnusable(plan.field, plan.claim, f"the device of volume {plan.volume}: {error.strerror}") from error


def _open_image(plan: ClaimPlan) -> DiskSource:
    note = ""
    try:
        with hold_directory(plan.directory) as root:
            if returning := find_returning(root, plan):
                return returning
            _take_arriving(root, plan)
            try:
                image = _open(root, plan)
            except FileNotFoundError:
                note = _make(root, plan)
                image = _open(root, plan)
    except NotADirectoryError:
        raise ClaimUnusable(plan.field, plan.claim, f"{plan.directory} is no directory", _ANEW) from None
    except FileNotFoundError:
        raise ClaimUnusable(plan.field, plan.claim, f"it is not mounted at {plan.directory}", _ANEW) from None
    try:
        found = os.fstat(image)
        if not stat.S_ISREG(found.st_mode):
            raise ClaimUnusable(
                plan.field, plan.claim, f"found {plan.file}, but it's no regular file", f"remove {plan.file}"
            )
        # QEMU opens the disk of a guest that comes without a lock, and takes the lock when the guest goes on.
        if plan.exclusive and not plan.comes and is_locked(image, writes=plan.writes):
            raise ClaimUnusable(
                plan.field,
                plan.claim,
                f"{plan.file} is open in another QEMU, and two guests must not write it at once",
                "it starts by itself once that has ended; set shareable: true on the disks of all VMs that share it",
            )
    finally:
        os.close(image)
    return DiskSource(
        path=plan.path,
        format="raw",
        readonly=plan.read_only,
        direct_io_ok=has_direct_io(plan.path),
        preallocated=found.st_size > 0 and found.st_blocks * _BLOCK >= found.st_size,
        thick=plan.thick,
        block_size=read_block_size(plan.path),
        note=note,
    )


def _take_arriving(root: int, plan: ClaimPlan) -> None:
    """The place for a disk that comes with its guest; no other disk is an unfinished copy of one."""
    if not plan.copied:
        refuse_arriving(root, plan)
        return
    try:
        make_arriving(root, plan, count_free_bytes(root))
    except OSError as error:
        _refuse_making(root, plan, error)


def _open(root: int, plan: ClaimPlan) -> int:
    # O_NONBLOCK: opening a fifo must not wait for somebody at its other end.
    flags = (os.O_RDWR if plan.writes else os.O_RDONLY) | os.O_NONBLOCK | os.O_NOCTTY
    try:
        return open_beneath(root, plan.file, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        _refuse(root, plan, error)


def _refuse(root: int, plan: ClaimPlan, error: OSError) -> NoReturn:
    """Say which user could open the image instead of us, and what to do."""
    if error.errno in (errno.ELOOP, errno.EXDEV):
        text, remedy = f"{plan.file} is a link, which is not followed", f"put the image itself at {plan.file}"
    elif error.errno in (errno.EISDIR, errno.ENXIO):
        text, remedy = f"found {plan.file}, but it's no regular file", f"remove {plan.file}"
    elif error.errno == errno.EACCES:
        verb = "written" if plan.writes else "read"
        text = f"{plan.file} cannot be {verb} by user {os.getuid()}{_explain_owner(root, plan.file)}"
        remedy = f"have it belong to group {os.getgid()} with mode 0660, or make it writable for all"
    elif error.errno == errno.EROFS:
        text, remedy = f"{plan.file} lies on a file system that is mounted read-only", _READ_ONLY_REMEDY
    else:
        text, remedy = f"{plan.file}: {error.strerror}", ""
    raise ClaimUnusable(plan.field, plan.claim, text, remedy) from error


def _explain_owner(root: int, file: str) -> str:
    try:
        found = os.stat(file, dir_fd=root, follow_symlinks=False)
    except OSError:
        return ""
    return f": it belongs to {found.st_uid}:{found.st_gid}, with mode {stat.S_IMODE(found.st_mode):04o}"


_READ_ONLY_REMEDY: Final = "set readOnly: true on the volume and on its disk, or use a claim that can be written"


def _make(root: int, plan: ClaimPlan) -> str:
    """Make a sparse image, which appears under its name when it is whole and on disk, or not at all.

    Returns what the user should hear of it, as KubeVirt says it; mostly nothing.
    """
    if plan.host_file:
        text = f"{plan.file} does not exist in that directory on this node"
        raise ClaimUnusable(plan.field, plan.claim, text, "put the image there, or use type: DiskOrCreate")
    if plan.comes:
        # An empty one in its place would be what the guest finds here of its data.
        raise ClaimUnusable(
            plan.field,
            plan.claim,
            f"{plan.file} of the guest is not in it on this node",
            "use storage that all nodes share for a claim with ReadWriteMany",
        )
    if plan.read_only:
        raise ClaimUnusable(
            plan.field,
            plan.claim,
            f"it is read-only and holds no {plan.file}",
            "take readOnly off the volume for a first start, or fill the claim",
        )
    if plan.size < MEBIBYTE:
        text = f"the size for volume {plan.volume} is too low, must be at least 1MiB"
        remedy = "make a claim of 1Mi or more"
        if not plan.size:
            text = "unable to determine capacity of HostDisk from PVC that provides no storage capacity or requests"
            remedy = "kubectl describe the claim to see what it waits for"
        raise ClaimUnusable(plan.field, plan.claim, text, remedy)
    free = count_free_bytes(root)
    size = fitting_size(plan, free)
    try:
        make_image(root, f".{plan.file}.{plan.run}", size)
    except OSError as error:
        _refuse_making(root, plan, error)
    if size == plan.size:
        return ""
    return explain_smaller(plan.size, free, f"volume {plan.volume}, PVC {plan.claim}")


def fitting_size(plan: ClaimPlan, free: int) -> int:
    """The size of an image where `free` bytes are left: the claim's, or up to a tenth less.

    Raises:
        DiskFull: when that is too much as well.
    """
    fitting = fitting_bytes(plan.size, free)
    if fitting is None:
        raise DiskFull(plan.path, no_room(plan.path, plan.size, free))
    return fitting


def _refuse_making(root: int, plan: ClaimPlan, error: OSError) -> NoReturn:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise error
    if error.errno in (errno.EACCES, errno.EPERM):
        found = os.fstat(root)
        text = (
            f"{plan.file} cannot be made by user {os.getuid()}: the directory belongs to"
            f" {found.st_uid}:{found.st_gid}, with mode {stat.S_IMODE(found.st_mode):04o}"
        )
        remedy = f"have it belong to group {os.getgid()} with mode 0770; an NFS export must map to that user"
    elif error.errno == errno.EROFS:
        text, remedy = f"{plan.file} cannot be made: its file system is mounted read-only", _READ_ONLY_REMEDY
    elif error.errno == errno.EFBIG:
        text = f"{plan.file} of {plan.size} bytes is larger than a file can be on its file system"
        remedy = "use a smaller claim, or another file system"
    else:
        text, remedy = f"{plan.file} cannot be made: {error.strerror}", ""
    raise ClaimUnusable(plan.field, plan.claim, text, remedy) from error
