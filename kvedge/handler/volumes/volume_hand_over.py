"""One volume from its attachment Pod into the launcher's Pod, and back.

Called by `hotplug_volumes`. Whether a volume has been handed over is seen in the launcher's Pod and nowhere else, so
that a handler that was killed at any step goes on: each step leaves either nothing or what the next one takes on.
Touches the directory of hotplugged volumes of one launcher, its mounts there, and its device cgroup.

A file: the image is made in the claim, an empty file made as its place, the image's mount attached there. Back: the
mount is taken off, the place removed. The file of a dump comes in the same way (`memory_dump_files`). A device: a node
that root alone can open is made under a name of its own, the cgroup rule is given, the node given to the guest's user,
renamed. Back: the node gets such a name again, the rule is taken, the node removed. So there is never a rule without a
node that tells of it. The claim that a disk
moves to comes as a whole: its directory is mounted as a file is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.own_thread import in_own_thread
from kvedge.handler.volumes.claim_image import ImageRefused, hold_claim_image, make_image
from kvedge.handler.volumes.copy_place import make_copy_place
from kvedge.handler.volumes.device_rules import allow_device, deny_device
from kvedge.resources.disks.hotplug_places import CLAIM_PLACE, DEVICE_PLACE, DUMP_SUFFIX, HOTPLUG_DIRECTORY
from kvedge.resources.disks.vm_backups import is_directory_place
from kvedge.resources.disks.volume_facts import IMAGE_FILE
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.vmi import ClaimInfo
from kvedge.resources.values.name_grammar import is_label
from kvedge.runtime.linux.mounts import (
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MS_PRIVATE,
    UMOUNT_NOFOLLOW,
    attach_mount,
    copy_mount,
    set_mount_attributes,
    unmount,
)
from kvedge.runtime.linux.namespaces import CLONE_NEWNS, setns
from kvedge.storage.arriving_mark import read_arriving
from kvedge.storage.beneath import AS_ROOT, STRICT, hold_directory, hold_open_beneath

_IMAGE: Final = ".img"
# A node that is being made, and one that is being taken away: neither is a volume's name.
_COMING: Final = ".coming-"
_GOING: Final = ".going-"
_MODE: Final = 0o660
_UNGIVEN_MODE: Final = 0o600
HARMLESS: Final = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY


@contextlib.contextmanager
def hold_hotplug_directory(launcher: HeldProcess) -> Iterator[int]:
    """The launcher's directory of hotplugged volumes.

    Raises:
        OSError: FileNotFoundError when its Pod has none.
    """
    with (
        launcher.root() as root,
        hold_open_beneath(root, HOTPLUG_DIRECTORY.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as opened,
    ):
        yield opened


def present_volumes(directory: int) -> dict[str, bool]:
    """What has been handed over, by the volume's name: whether it is a device."""
    found = {}
    for name in list_names(directory):
        facts = _find_facts(directory, name)
        if facts is None:
            continue
        if stat.S_ISBLK(facts.st_mode):
            found[name] = True
        elif stat.S_ISREG(facts.st_mode) and facts.st_size and name.endswith(_IMAGE):
            found[name.removesuffix(_IMAGE)] = False
        elif name.endswith(DUMP_SUFFIX) and is_mounted(directory, name):
            found[name.removesuffix(DUMP_SUFFIX)] = False
        elif stat.S_ISDIR(facts.st_mode) and is_directory_place(name) and is_mounted(directory, name):
            found[name] = False
    return {name: is_device for name, is_device in found.items() if is_label(name)}


def leftovers(directory: int) -> set[str]:
    """Volumes of which a killed handler, or a refused step, has left something that is not whole."""
    found = set()
    for name in list_names(directory):
        facts = _find_facts(directory, name)
        if facts is None:
            continue
        for prefix in (_COMING, _GOING):
            if name.startswith(prefix):
                found.add(name.removeprefix(prefix))
        if name.endswith(_IMAGE) and stat.S_ISREG(facts.st_mode) and not facts.st_size:
            found.add(name.removesuffix(_IMAGE))
        if name.endswith(DUMP_SUFFIX) and not is_mounted(directory, name):
            found.add(name.removesuffix(DUMP_SUFFIX))
        if stat.S_ISDIR(facts.st_mode) and is_directory_place(name):
            found.add(name)
    return {name for name in found if is_label(name)}


def is_mounted(directory: int, name: str) -> bool:
    """Whether something is mounted on an entry of a directory: a file may be empty, and its own is no sign."""
    try:
        with hold_open_beneath(directory, name, os.O_PATH | os.O_NOFOLLOW) as entry:
            return _read_mount(entry) != _read_mount(directory)
    except FileNotFoundError:
        return False


def _read_mount(opened: int) -> str:
    with open(f"/proc/self/fdinfo/{opened}") as file:
        return next((line.split()[1] for line in file if line.startswith("mnt_id:")), "")


def hand_over_file(
    name: str, info: ClaimInfo | None, source: HeldProcess, launcher: HeldProcess, copy: str = ""
) -> None:
    """Put the image of a claim into the launcher's Pod; one that is absent is made by `info`, if that is given.

    With `copy` it is to become the copy of a disk: a new image, beside which these words say that it is no disk yet.

    Raises:
        ImageRefused: when the claim has no image that a guest can have, or the name is no volume's.
        OSError: when the kernel refuses.
    """
    check_name(name)
    with source.namespace("mnt") as theirs, launcher.namespace("mnt") as ours:
        with (
            source.root() as root,
            hold_open_beneath(root, CLAIM_PLACE.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as claim,
        ):
            if copy:
                in_own_thread(partial(make_copy_place, claim, copy))
            elif not _has_image(claim):
                if read_arriving(claim):
                    raise ImageRefused(f"{IMAGE_FILE} in its claim is still coming: it is no disk yet")
                if info is None:
                    raise ImageRefused(f"{IMAGE_FILE} is not in its claim, as this node sees it")
                in_own_thread(partial(make_image, claim, info))
        with hold_hotplug_directory(launcher) as directory:
            place = os.open(f"{name}{_IMAGE}", os.O_CREAT | os.O_RDONLY | os.O_NOFOLLOW, 0o600, dir_fd=directory)
            os.close(place)
        in_own_thread(partial(_mount_image, name, theirs, ours, copy))


def hand_over_directory(name: str, source: HeldProcess, launcher: HeldProcess) -> None:
    """Put the file system of a claim into the launcher's Pod.

    Raises:
        ImageRefused: when the name is no volume's.
        OSError: when the kernel refuses.
    """
    check_name(name)
    with source.namespace("mnt") as theirs, launcher.namespace("mnt") as ours:
        with hold_hotplug_directory(launcher) as directory, contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=directory)
        in_own_thread(partial(_mount_directory, name, theirs, ours))


def _mount_directory(name: str, theirs: int, ours: int) -> None:
    """As `_mount_image`."""
    setns(theirs, CLONE_NEWNS)
    with (
        hold_directory("/") as root,
        hold_open_beneath(root, CLAIM_PLACE.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as claim,
    ):
        copied = copy_mount(claim, recursive=False)
    try:
        set_mount_attributes(copied, HARMLESS, MS_PRIVATE, recursive=False)
        setns(ours, CLONE_NEWNS)
        with hold_own_directory() as directory:
            if not is_mounted(directory, name):
                with hold_open_beneath(directory, name, _DIRECTORY, resolve=STRICT) as place:
                    attach_mount(copied, place)
    finally:
        os.close(copied)


def check_name(name: str) -> None:
    """Files are opened, renamed and removed as root by this name: no part of it may be a way."""
    if not is_label(name):
        raise ImageRefused(f"{name!r} is no volume's name: it must be a lowercase RFC 1123 label")


def _has_image(claim: int) -> bool:
    try:
        os.stat(IMAGE_FILE, dir_fd=claim, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _mount_image(name: str, theirs: int, ours: int, copy: str) -> None:
    """Runs in a thread of its own, in the attachment Pod's mount namespace first and then in the launcher's."""
    setns(theirs, CLONE_NEWNS)
    with (
        hold_directory("/") as root,
        hold_open_beneath(root, CLAIM_PLACE.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as claim,
        hold_claim_image(claim, copy) as image,
    ):
        copied = copy_mount(image, recursive=False)
    attach_file(copied, f"{name}{_IMAGE}", ours)


def attach_file(copied: int, name: str, ours: int) -> None:
    """Attach the mount of a file, which is closed, to its place in the launcher's directory, unless one is there.

    The thread enters the launcher's mount namespace, and ends after that.
    """
    try:
        set_mount_attributes(copied, HARMLESS, MS_PRIVATE, recursive=False)
        setns(ours, CLONE_NEWNS)
        with hold_own_directory() as directory:
            if is_mounted(directory, name):
                return
            with hold_open_beneath(directory, name, os.O_PATH, resolve=STRICT) as place:
                attach_mount(copied, place)
    finally:
        os.close(copied)


@contextlib.contextmanager
def hold_own_directory() -> Iterator[int]:
    """The hotplug directory for a thread that is in the launcher's mount namespace."""
    with (
        hold_directory("/") as root,
        hold_open_beneath(root, HOTPLUG_DIRECTORY.lstrip("/"), _DIRECTORY, resolve=AS_ROOT) as opened,
    ):
        yield opened


def hand_over_device(name: str, given: Collection[int], source: HeldProcess, launcher: HeldProcess) -> None:
    """Put the device of a claim into the launcher's Pod; `given` are those that the kubelet gave to its Pod.

    Raises:
        ImageRefused: when the attachment Pod has no block device, or one from elsewhere, or the name is no volume's.
        OSError: when the kernel refuses.
    """
    check_name(name)
    with source.root() as root, hold_open_beneath(root, DEVICE_PLACE.lstrip("/"), os.O_PATH, resolve=AS_ROOT) as node:
        facts = os.fstat(node)
    if not stat.S_ISBLK(facts.st_mode):
        raise ImageRefused("the claim is of mode Block, but its attachment Pod has no block device")
    if facts.st_rdev not in given:
        # A process that may make device nodes in the Pod could name any device of the host.
        device = f"{os.major(facts.st_rdev)}:{os.minor(facts.st_rdev)}"
        raise ImageRefused(
            f"device {device} in its attachment Pod is none that the kubelet gave to this Pod; delete the Pod, and it"
            " is made anew"
        )
    with hold_hotplug_directory(launcher) as directory:
        # A handler that was killed may have given the rule of another device to a claim of before.
        _take_back_device(name, (f"{_COMING}{name}",), directory, launcher)
        coming = f"{_COMING}{name}"
        os.mknod(coming, stat.S_IFBLK | _UNGIVEN_MODE, facts.st_rdev, dir_fd=directory)
        allow_device(launcher, facts.st_rdev)
        with launcher.namespace("mnt") as ours:
            in_own_thread(partial(_open_to_devices, ours))
        _give_to_guest(directory, coming, facts.st_rdev)
        os.rename(coming, name, src_dir_fd=directory, dst_dir_fd=directory)


def _give_to_guest(directory: int, name: str, device: int) -> None:
    """Owner and mode of a node that was just made; the launcher may have put a link or another file in its place."""
    with hold_open_beneath(directory, name, os.O_PATH | os.O_NOFOLLOW) as node:
        facts = os.fstat(node)
        if not stat.S_ISBLK(facts.st_mode) or facts.st_rdev != device:
            raise OSError(errno.EEXIST, "something else stands in the device's place", name)
        # By the node itself: mknod's mode is cut by the umask.
        os.chmod(f"/proc/self/fd/{node}", _MODE)
        os.chown(f"/proc/self/fd/{node}", LAUNCHER_UID, LAUNCHER_GID)


def _open_to_devices(ours: int) -> None:
    """Let devices work in the launcher's directory, where nobody but a handler makes any: one box mounts it without."""
    setns(ours, CLONE_NEWNS)
    with hold_own_directory() as directory:
        try:
            set_mount_attributes(directory, 0, cleared=MOUNT_ATTR_NODEV, recursive=False)
        except OSError as error:
            # It is no mount of its own: then it is as its file system is.
            if error.errno != errno.EINVAL:
                raise


def take_back(name: str, launcher: HeldProcess) -> None:
    """Remove all that there is of a volume; the domain must not have it any more, nor write a dump into it.

    Raises:
        ImageRefused: when the name is no volume's.
        OSError: EBUSY while QEMU has the file open: tried again later.
    """
    check_name(name)
    with hold_hotplug_directory(launcher) as directory:
        places = (f"{name}{_IMAGE}", f"{name}{DUMP_SUFFIX}")
        files = [place for place in places if _find_facts(directory, place) is not None]
        there = _find_facts(directory, name)
        is_directory = is_directory_place(name) and there is not None and stat.S_ISDIR(there.st_mode)
        _take_back_device(name, (f"{_COMING}{name}", name), directory, launcher)
    for file in files:
        with launcher.namespace("mnt") as ours:
            in_own_thread(partial(_unmount_file, file, ours))
    if is_directory:
        with launcher.namespace("mnt") as ours:
            in_own_thread(partial(_unmount_directory, name, ours))


def _unmount_file(file: str, ours: int) -> None:
    setns(ours, CLONE_NEWNS)
    with hold_own_directory() as directory:
        # A name without a way: no link can be in it.
        os.fchdir(directory)
        _unmount_all(file)
        _remove(directory, file)


def _unmount_directory(name: str, ours: int) -> None:
    setns(ours, CLONE_NEWNS)
    with hold_own_directory() as directory:
        os.fchdir(directory)
        _unmount_all(name)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(name, dir_fd=directory)


def _unmount_all(path: str) -> None:
    # Two, when two handlers met.
    for _ in range(4):
        try:
            unmount(path, UMOUNT_NOFOLLOW)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return
            raise


def _take_back_device(name: str, nodes: tuple[str, ...], directory: int, launcher: HeldProcess) -> None:
    """Take the rules of a volume's nodes of these names, and of the one that was being taken back.

    Each is done before the next one gets the name of one that is being taken back: that name tells of one rule.
    """
    going = f"{_GOING}{name}"
    for present in (going, *nodes):
        facts = _find_facts(directory, present)
        if facts is None:
            continue
        if not stat.S_ISBLK(facts.st_mode):
            if present != name:
                _remove_foreign(directory, present, facts)
            continue
        if present != going:
            os.rename(present, going, src_dir_fd=directory, dst_dir_fd=directory)
        if not _is_used(directory, facts.st_rdev, going):
            deny_device(launcher, facts.st_rdev)
        _remove(directory, going)


def _remove_foreign(directory: int, name: str, facts: os.stat_result) -> None:
    """Take away what the launcher has put where a node is to be made."""
    if stat.S_ISDIR(facts.st_mode):
        os.rmdir(name, dir_fd=directory)
    else:
        _remove(directory, name)


def _is_used(directory: int, device: int, but: str) -> bool:
    """Whether another volume of the launcher is the same device."""
    others = (_find_facts(directory, name) for name in list_names(directory) if name != but)
    return any(facts is not None and stat.S_ISBLK(facts.st_mode) and facts.st_rdev == device for facts in others)


def list_names(directory: int) -> list[str]:
    with hold_open_beneath(directory, ".", os.O_RDONLY | os.O_DIRECTORY) as opened:
        return sorted(os.listdir(opened))


def _find_facts(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _remove(directory: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
