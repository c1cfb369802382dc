"""The program of a container that shares one directory with a guest: `kvedge launcher-share`.

It waits until QEMU connects, and then becomes virtiofsd, which serves that one QEMU and ends with it, whatever becomes
of the launcher meanwhile. A QEMU that never comes is waited for as long as there is a launcher, which holds a mark.
Imports only what is built into the interpreter or small: such a program waits in each of these containers.

Nobody stops it: when a Pod is to go, all of its containers are asked at once, and a guest that shuts down still writes.
Its own mark is held from when it listens to virtiofsd's end: the launcher starts its QEMU by it, and sees that end. A
socket alone tells nothing, as it outlasts who listened.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import sys
import time

from kvedge.launcher.shares.daemon_command import REMEDY, find_daemon
from kvedge.launcher.shares.share_marks import LAUNCHER, hold, is_held, write_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_USAGE = "usage: kvedge launcher-share NAME DIRECTORY SHARES-DIRECTORY\n"
_WRONG_USAGE = 2
_ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# How long a launcher may take to come: its container is started at the same time, on a node that may be busy.
COMING_SECONDS = 600.0
# How long it may be away: the monitor starts one that died again, a few times and ever later.
AWAY_SECONDS = 30.0
_LOOK_SECONDS = 1.0


def main(arguments: list[str]) -> int:
    """Wait, and become virtiofsd. Returns when no QEMU has come: 0, or 2 for a command line without sense."""
    if len(arguments) != len(("name", "directory", "shares")):
        sys.stderr.write(_USAGE)
        return _WRONG_USAGE
    name, directory, shares = arguments
    os.umask(0o077)
    asked: list[int] = []
    for number in _ASKED:
        signal.signal(number, lambda number, _: asked.append(number))
    daemon = find_daemon()
    reason = "" if daemon is not None else f"this node has no virtiofsd; {REMEDY}"
    if not os.path.isdir(directory):
        reason = f"nothing is mounted at {directory} in its container; delete the VMI, and its Pod is made anew"
    if daemon is not None and daemon.needs_root:
        reason = _become_root_of_namespace()
    mark = f"{shares}/{LAUNCHER}"
    if daemon is None or reason:
        sys.stderr.write(f"{reason}\n")
        write_reason(f"{shares}/{name}.refused", reason)
        # The launcher tells the VM's user. A container that failed would be a second trouble.
        _wait(None, mark, asked)
        return 0
    listener = listen(f"{shares}/{name}.sock")
    # After that, as a socket of before may lie there until then. The launcher tries the mark now and then for a moment,
    # which is waited for. It is inherited by the program that this becomes.
    os.set_inheritable(hold(f"{shares}/{name}.lock", wait=True), True)
    if _wait(listener, mark, asked):
        _become(daemon.arguments(directory, listener.fileno()), listener)
    return 0


class Patience:
    """Decides how long a QEMU is waited for, by whether a launcher is seen; times are of one monotonic clock."""

    def __init__(self, now: float) -> None:
        self._until = now + COMING_SECONDS

    def goes_on(self, now: float, *, launcher: bool, asked: bool) -> bool:
        """Whether to wait longer; `asked` says that the container was asked to end."""
        if launcher:
            self._until = now + AWAY_SECONDS
            return True
        return not asked and now < self._until


def listen(path: str) -> socket.socket:
    """A socket for QEMU, which has the same user; it takes the place of what was there."""
    staged = f"{path}.new"
    if os.path.lexists(staged):
        os.unlink(staged)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(staged)
    listener.listen(1)
    # Whoever finds it can connect.
    os.rename(staged, path)
    return listener


def _wait(listener: socket.socket | None, mark: str, asked: list[int]) -> bool:
    """Whether QEMU waits at the socket."""
    patience = Patience(time.monotonic())
    while patience.goes_on(time.monotonic(), launcher=is_held(mark), asked=bool(asked)):
        if select.select([] if listener is None else [listener], [], [], _LOOK_SECONDS)[0]:
            return True
    return False


def _become(argv: list[str], listener: socket.socket) -> NoReturn:
    for number in _ASKED:
        signal.signal(number, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listener.set_inheritable(True)
    os.execv(argv[0], argv)


def _become_root_of_namespace() -> str:
    """Enter a user namespace of this user alone, who is root there and of nothing else; why not, or an empty text.

    So QEMU's virtiofsd can make the directory its root, and what it makes there belongs to this user.
    """
    # Where the newer one is, nobody needs them.
    from kvedge.launcher.shares.group_filter import filter_code
    from kvedge.runtime.linux.namespaces import CLONE_NEWUSER, unshare
    from kvedge.runtime.linux.privileges import filter_calls

    user, group = os.geteuid(), os.getegid()
    try:
        unshare(CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        # It wants to leave its other groups, of which a Pod gives it some; in such a namespace nobody can.
        filter_calls(filter_code())
    except OSError as error:
        words = error.strerror or errno.errorcode.get(error.errno or 0, "unknown")
        return (
            f"this node's virtiofsd, which is that of QEMU before 8.0, needs a user namespace, and gets none: {words};"
            " allow unprivileged users to make them there, or install the newer virtiofsd"
        )
    return ""
