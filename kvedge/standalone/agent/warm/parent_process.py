"""The agent's end of the parent of warm launchers: started, asked, and ended.

Used by `warm_starts`, by one thread at a time. Touches that process and nothing else of this host.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
from collections.abc import Sequence

from kvedge.standalone.agent.container.container_spec import ContainerSpec
from kvedge.standalone.agent.warm.warm_words import ARGUMENT_ROOM, ENVIRONMENT_ROOM, NO_LETTERS, ORDER, YES

# It takes half a second to load; on a machine that is busy a launcher would take as long by itself.
LOAD_SECONDS = 20.0
# A fork takes a millisecond.
TAKE_SECONDS = 10.0
_END_SECONDS = 5.0
# linux/memfd.h; not in Python yet.
_MFD_NOEXEC_SEAL = 0x0008
_LETTERS = 4 * NO_LETTERS
# As a launcher's: a locale in it would be that of all of them. A user's own site-packages are root's here.
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONNOUSERSITE": "1",
    # A launcher's own variables are put in the place of all these.
    "KVEDGE_ROOM": " " * ENVIRONMENT_ROOM,
}


class ParentFailed(Exception):
    """The parent is gone, hangs or refuses, and has been ended; the text says which."""


class ParentProcess:
    """One such process."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it.

        Raises:
            ParentFailed: when no process can be made.
        """
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.pid = os.posix_spawn(
                command[0],
                [*command, " " * ARGUMENT_ROOM],
                _ENVIRONMENT,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)],
            )
        except OSError as error:
            self._socket.close()
            raise ParentFailed(f"cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
        self._pidfd = os.pidfd_open(self.pid)

    @property
    def has_ended(self) -> bool:
        """Whether it has, by itself or by :meth:`end`."""
        return self._pidfd < 0 or self._await_end(0)

    def await_loaded(self) -> None:
        """Return once it can fork launchers.

        Raises:
            ParentFailed: when it cannot.
        """
        self._expect_yes(LOAD_SECONDS, "does not load")

    def hand_over(self, spec: ContainerSpec) -> int:
        """Have it fork a launcher; a descriptor that is readable once this parent has ended, which the caller closes.

        The order is in a file in memory: the parent hands it on unread.

        Raises:
            ParentFailed: when it does not say that it has; a child that it has forked all the same takes the
                container's lock, as any other.
        """
        order = _open_memory_file(json.dumps(spec).encode())
        try:
            socket.send_fds(self._socket, [ORDER], [order], socket.MSG_DONTWAIT)
        except (ConnectionError, BlockingIOError) as error:
            self.end()
            raise ParentFailed(f"takes no order: {error.strerror}") from error
        finally:
            os.close(order)
        self._expect_yes(TAKE_SECONDS, "hangs")
        return os.dup(self._pidfd)

    def end(self) -> None:
        """Kill it, wherever it is; what it has forked runs on."""
        self._socket.close()
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        # A process that cannot be killed at once forks nothing any more either.
        self._await_end(_END_SECONDS)
        os.waitpid(self.pid, os.WNOHANG)
        os.close(self._pidfd)
        self._pidfd = -1

    def _await_end(self, seconds: float) -> bool:
        # The agent may have more descriptors than select(2) can tell of.
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _expect_yes(self, seconds: float, hangs: str) -> None:
        self._socket.settimeout(seconds)
        try:
            word = self._socket.recv(_LETTERS).decode(errors="replace")
        except TimeoutError:
            word = f"-{hangs}"
        except ConnectionError:
            word = ""
        if word != YES:
            self.end()
            raise ParentFailed(word[1:] or "has ended")


def _open_memory_file(content: bytes) -> int:
    try:
        descriptor = os.memfd_create("order", os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    except OSError as error:
        # Linux before 6.3 does not know the second flag; later ones may be set to insist on it.
        if error.errno != errno.EINVAL:
            raise
        descriptor = os.memfd_create("order", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    return descriptor
