"""Work in another network namespace, and named ones under /run/netns.

A thread of its own enters the namespace, does the work and ends: the process stays where it is, nothing is forked,
and a socket opened there stays there. (pyroute2's own way forks a process per socket: 8 ms against 0.3 ms here.) Used
by the handler for a Pod's namespace and by the node agent for the namespaces of its Pods. Touches /run/netns and the
mount table.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from kvedge.network.errors import NetworkError
from kvedge.runtime.linux.mounts import MNT_DETACH, MS_BIND, MS_REC, MS_SHARED, mount, unmount
from kvedge.runtime.linux.namespaces import CLONE_NEWNET, setns, unshare

log = logging.getLogger(__name__)

T = TypeVar("T")

# A path such as /run/netns/name, or an open descriptor. A process's own is never named by a path: its number is given
# to another one when it has ended.
NetnsRef = str | os.PathLike[str] | int

RUN_DIRECTORY: Final = Path("/run/netns")


def run_in_netns(netns: NetnsRef, work: Callable[[], T]) -> T:
    """Calls `work` in a thread that has entered `netns` and returns what it returns, or raises what it raises.

    `work` may start subprocesses: they inherit the namespace. Raises NetworkError when there is no such namespace.
    """

    def enter_and_work() -> T:
        _enter(netns)
        return work()

    return _in_thread("netns", enter_and_work)


def identify_netns(netns: NetnsRef) -> str:
    """What tells this namespace from every other one of this boot: device and inode. Raises NetworkError."""
    try:
        status = os.stat(netns)
    except OSError as error:
        raise NetworkError(
            "there is no network namespace", subject=netns_subject(netns), errno=error.errno or 0
        ) from error
    return f"{status.st_dev}:{status.st_ino}"


def netns_subject(netns: NetnsRef) -> str:
    """What an error calls it."""
    return "behind a descriptor" if isinstance(netns, int) else str(netns)


def netns_path(name: str) -> Path:
    """Where the named namespace is, or would be."""
    return RUN_DIRECTORY / name


def create_netns(name: str) -> Path:
    """Makes the named namespace unless it is there; resumes a creation that was cut short. Returns its path.

    As `ip netns add` does, down to the mount of /run/netns onto itself: were it not there, the first `ip netns add` of
    somebody else would make it, over ours, which could then never be deleted.
    """
    path = netns_path(name)
    if is_netns(path):
        return path
    try:
        RUN_DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        _share_run_directory()
        path.touch(mode=0o444)
        _in_thread("netns-create", lambda: _mount_new_netns(path))
    except OSError as error:
        raise NetworkError("cannot create network namespace", subject=name, errno=error.errno or 0) from error
    return path


def delete_netns(name: str) -> None:
    """Removes the name; the namespace itself goes with its last process. May be called again."""
    path = netns_path(name)
    try:
        while is_netns(path):
            unmount(path, MNT_DETACH)
        path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno == errno.EBUSY and not is_netns(path):
            # Somebody mounted over /run/netns when ours was there: it is out of reach until a reboot, and empty.
            log.warning("a namespace's name lies hidden below another mount", extra={"facts": {"name": name}})
            return
        raise NetworkError("cannot delete network namespace", subject=name, errno=error.errno or 0) from error


def release_run_directory() -> None:
    """Take the mount of /run/netns onto itself away, when no name is left in it; the next user makes it again."""
    try:
        if _is_mount_point() and not os.listdir(RUN_DIRECTORY):
            unmount(RUN_DIRECTORY)
    except OSError as error:
        # Somebody is just using it: then it stays, as it would have without us.
        log.info("/run/netns stays a mount", extra={"facts": {"error": error.strerror}})


def list_netns(prefix: str) -> list[str]:
    """The names that begin with `prefix`, half-made ones too."""
    if not RUN_DIRECTORY.is_dir():
        return []
    return sorted(entry for entry in os.listdir(RUN_DIRECTORY) if entry.startswith(prefix))


def is_netns(path: Path) -> bool:
    """Whether a namespace is mounted there, and not merely the empty file that waits for one."""
    with suppress(FileNotFoundError):
        return os.stat(path).st_dev == os.stat("/proc/self/ns/net").st_dev
    return False


def _share_run_directory() -> None:
    names = os.listdir(RUN_DIRECTORY)
    if not _is_mount_point():
        if any(is_netns(RUN_DIRECTORY / name) for name in names):
            # Made by an older kvedge: a mount over them now would hide them.
            return
        mount(str(RUN_DIRECTORY), RUN_DIRECTORY, "none", MS_BIND | MS_REC)
    mount("none", RUN_DIRECTORY, "none", MS_SHARED | MS_REC)


def _is_mount_point() -> bool:
    # os.path.ismount compares devices, which are equal for a directory that is mounted onto itself.
    lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    return any(line.split(" ")[4] == str(RUN_DIRECTORY) for line in lines)


def _enter(netns: NetnsRef) -> None:
    opened = -1
    try:
        if isinstance(netns, int):
            setns(netns, CLONE_NEWNET)
        else:
            opened = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
            setns(opened, CLONE_NEWNET)
    except OSError as error:
        raise NetworkError(
            "cannot enter network namespace", subject=netns_subject(netns), errno=error.errno or 0
        ) from error
    finally:
        if opened >= 0:
            os.close(opened)


def _mount_new_netns(path: Path) -> None:
    unshare(CLONE_NEWNET)
    mount("/proc/thread-self/ns/net", path, "none", MS_BIND)


def _in_thread(name: str, work: Callable[[], T]) -> T:
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, whatever it is
            failures.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
