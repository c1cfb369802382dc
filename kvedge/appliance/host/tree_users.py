"""The users of an unpacked version of the program: processes, mounts, and Pods that have been written down.

Called by `unpacked_trees`. Reads /proc and the kubelet's directory. A tree is named by 64 hexadecimal digits, so its
name in any path of a process is proof enough. In a cluster a launcher has its tree mounted under a name without a
version: there only the mount's root, in the mountinfo of its namespace, names the tree.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

# A process may end while it is looked at, and a hardened system may keep some from root: their command lines remain, in
# which everything that kvedge starts names its tree.
_HIDDEN = (FileNotFoundError, ProcessLookupError, PermissionError)


def find_used_trees(names: Set[str], pods: Path | None, proc: Path = Path("/proc")) -> set[str]:
    """Those of the trees that are in use.

    Args:
        names: the names of the trees, each 64 hexadecimal digits.
        pods: the directory where the agent of one box writes its Pods down, if there is one.
        proc: the processes' file system.

    Raises:
        OSError: when the Pods that are written down cannot be read.
    """
    left = set(names)
    for text in _texts(pods, proc):
        left -= {name for name in left if name.encode() in text}
        if not left:
            break
    return set(names) - left


def _texts(pods: Path | None, proc: Path) -> Iterator[bytes]:
    """All texts that may name a tree."""
    if pods is not None and pods.is_dir():
        for record in pods.glob("*/pod.json"):
            with suppress(FileNotFoundError):
                yield record.read_bytes()
    spaces: set[bytes] = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            yield from _read_process(entry, spaces)


def _read_process(process: Path, spaces: set[bytes]) -> Iterator[bytes]:
    """What a process was started as, runs and has mapped, and what is mounted where it lives."""
    for read in (_command, _read_program, _maps):
        with suppress(*_HIDDEN):
            yield read(process)
    with suppress(*_HIDDEN):
        space = os.readlink(os.fsencode(process / "ns/mnt"))
        if space not in spaces:
            yield _mounts(process)
            # Only now: the process may have vanished before it could be read.
            spaces.add(space)


def _command(process: Path) -> bytes:
    return (process / "cmdline").read_bytes()


def _read_program(process: Path) -> bytes:
    return os.readlink(os.fsencode(process / "exe"))


def _maps(process: Path) -> bytes:
    return (process / "maps").read_bytes()


def _mounts(process: Path) -> bytes:
    try:
        return (process / "mountinfo").read_bytes()
    except OSError as error:
        # The kernel's answer for a process that has ended and is still to be waited for.
        if error.errno == errno.EINVAL:
            raise ProcessLookupError(error.errno, "no longer in a mount namespace") from error
        raise
