"""How the handler reaches into a launcher Pod: sockets and files beneath the Pod's volumes, no link followed.

Called by the launcher client and the relay. A guest that broke out of QEMU may have put anything into a Pod's volume:
each step of a path is opened without following links and checked to be what it should be, and so is the process that
listens on a socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.handler.held_process import HeldProcess, Identity, Kind, identity_of, own_namespace
from kvedge.resources.names import LAUNCHER_SOCKET, SOCKETS_DIRECTORY

_EMPTY_DIRS: Final = "volumes/kubernetes.io~empty-dir"
_BENEATH: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_SOCKETS: Final = "sockets"
# A launcher has its own of each; nothing that runs on the node itself does.
_OF_A_POD: Final[tuple[Kind, ...]] = ("pid", "mnt", "net")


class NotThere(Exception):
    """The file or socket is not there (yet); `path` is where it was looked for."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is not there")
        self.path = path


class Unexpected(Exception):
    """Something else than expected lies there: never touched, always reported."""

    def __init__(self, path: str, found: str) -> None:
        super().__init__(f"{path} is {found}, which no launcher puts there")
        self.path = path


def volume_directory(kubelet: Path, pod_uid: str, volume: str) -> Path:
    """Where the kubelet keeps an emptyDir of a Pod."""
    return kubelet / "pods" / pod_uid / _EMPTY_DIRS / volume


def launcher_socket_path(kubelet: Path, pod_uid: str) -> tuple[Path, str]:
    """The trusted directory, and the name in it, of the launcher's gRPC socket."""
    return volume_directory(kubelet, pod_uid, _SOCKETS), LAUNCHER_SOCKET


@contextlib.contextmanager
def hold_open_beneath(root: Path, relative: str) -> Iterator[int]:
    """A descriptor (O_PATH) of `relative` beneath `root`, closed at the end.

    Raises:
        NotThere: when a part is missing.
        Unexpected: when a part on the way is a link.
    """
    descriptor = open_beneath(root, relative)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_beneath(root: Path, relative: str) -> int:
    """As :func:`hold_open_beneath`; the caller closes the descriptor."""
    whole = f"{root}/{relative}"
    try:
        here = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotThere(whole) from error
    try:
        *parents, name = relative.split("/")
        for part in parents:
            below = _open_step(part, os.O_PATH | os.O_DIRECTORY | _BENEATH, here, whole)
            os.close(here)
            here = below
        return _open_step(name, os.O_PATH | _BENEATH, here, whole)
    finally:
        os.close(here)


def _open_step(part: str, flags: int, parent: int, whole: str) -> int:
    if part in ("", ".", ".."):
        raise Unexpected(whole, "a path that leaves its volume")
    try:
        return os.open(part, flags, dir_fd=parent)
    except FileNotFoundError as error:
        raise NotThere(whole) from error
    except NotADirectoryError as error:
        raise Unexpected(whole, "behind a link or a file") from error


def open_socket(root: Path, relative: str) -> int:
    """An O_PATH descriptor of a unix socket; connect to `/proc/self/fd/<n>`, which no path length limits.

    Raises:
        NotThere, Unexpected: as above, and when it is no socket.
    """
    descriptor = open_beneath(root, relative)
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unexpected(f"{root}/{relative}", "no socket")
    return descriptor


def read_file_beneath(root: Path, relative: str, limit: int) -> bytes:
    """At most `limit` bytes of a regular file.

    Raises:
        NotThere, Unexpected: as above, and when it is no regular file or longer than `limit`.
    """
    with hold_open_beneath(root, relative) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unexpected(f"{root}/{relative}", "no regular file")
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            content = file.read(limit + 1)
    if len(content) > limit:
        raise Unexpected(f"{root}/{relative}", f"longer than {limit} bytes")
    return content


def hold_listener(descriptor: int, volume: Path) -> HeldProcess:
    """The process that listens on a launcher's socket in its Pod's volume, held; the caller closes it.

    The kernel tells the number of the process that called listen(2). It may have ended since, and another Pod's may
    have the number: only this Pod's have its volume where a launcher has it.

    Raises:
        NotThere: when nobody listens.
        Unexpected: when the process that listens has ended, or is none of this Pod.
    """
    wanted = _identify_volume(volume)
    pid = _find_peer_pid(descriptor)
    path = f"{volume}/{LAUNCHER_SOCKET}"
    try:
        held = HeldProcess.of(pid)
        try:
            _check_of_pod(held, wanted, path)
        except BaseException:
            held.close()
            raise
    except (ProcessLookupError, PermissionError) as error:
        raise Unexpected(path, f"listened on by nobody of this Pod: {error.strerror}") from error
    return held


def _identify_volume(volume: Path) -> Identity:
    try:
        return identity_of(os.stat(volume, follow_symlinks=False))
    except FileNotFoundError as error:
        raise NotThere(str(volume)) from error


def _check_of_pod(process: HeldProcess, volume: Identity, path: str) -> None:
    for kind in _OF_A_POD:
        if process.identity(kind) == own_namespace(kind):
            raise Unexpected(path, f"listened on by process {process.pid} in the node's own {kind} namespace")
    if process.identify_directory(SOCKETS_DIRECTORY) != volume:
        raise Unexpected(path, f"listened on by process {process.pid} without this Pod's volume")


def _find_peer_pid(descriptor: int) -> int:
    """The process that called listen(2) on the socket, as the kernel says (SO_PEERCRED)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        # In the event loop of all launchers: one whose queue is full, as a stopped one has it, is asked again later.
        client.setblocking(False)
        try:
            client.connect(f"/proc/self/fd/{descriptor}")
        except OSError as error:
            raise NotThere(f"a listener behind descriptor {descriptor}") from error
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _uid, _gid = struct.unpack("3i", credentials)
    return int(pid)
