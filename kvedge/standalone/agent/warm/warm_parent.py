"""The parent of warm launchers: a process that has loaded what launchers need, from which they are forked.

Run by the node agent's `warm_starts` as a hidden verb of this program. It reads one descriptor per launcher from the
socket that is its standard input, and forks a child, which reads the order from it: nothing of a VM is ever in this
process, so nothing of one VM is in another's launcher. From there on the child does what a child of the container
starter does, up to exec(2), in place of which it goes on as the launcher.

It ends when its socket does: with the agent, however that ends. Its launchers know nothing of it and run on.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

from kvedge.launcher.warm_launcher import CannotWarm, become_launcher, load, take_words
from kvedge.runtime.linux.loaded_files import LoadedFiles
from kvedge.standalone.agent.container.container_starter import Program, start_and_hold
from kvedge.standalone.agent.warm.warm_words import NO, NO_LETTERS, YES

if TYPE_CHECKING:
    from kvedge.standalone.agent.container.container_spec import ContainerSpec


class _WarmLauncher(Program):
    """A launcher that is this process."""

    def announce(self, spec: ContainerSpec) -> None:
        take_words(spec["argv"], spec["env"])

    def run(self, spec: ContainerSpec) -> None:
        become_launcher()


def main() -> int:
    """Fork a launcher for each order, until the agent is gone."""
    # A terminal's Ctrl-C is for the agent.
    os.setsid()
    # Descriptors that the agent itself was started with.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # This process does not wait for holders: they vanish when they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    agent = socket.socket(fileno=0)
    try:
        load()
    except CannotWarm as error:
        _tell(agent, f"{NO}{error}")
        return 1
    loaded = LoadedFiles()
    _tell(agent, YES)
    while (order := _receive(agent)) >= 0:
        if changed := loaded.find_changed():
            _tell(agent, f"{NO}{changed} is not what it was")
            return 0
        _fork(agent, order)
    return 0


def _receive(agent: socket.socket) -> int:
    """The descriptor of an order; -1 when there will be none."""
    try:
        _, descriptors, _, _ = socket.recv_fds(agent, 1, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return -1
    return descriptors[0] if descriptors else -1


def _fork(agent: socket.socket, order: int) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        os.close(order)
        _tell(agent, f"{NO}{error.strerror}")
        return
    if pid == 0:
        # Its number becomes /dev/null's.
        agent.detach()
        with os.fdopen(order, "rb") as file:
            file.seek(0)
            text = file.read()
        os._exit(start_and_hold(text, _WarmLauncher()))
    os.close(order)
    _tell(agent, YES)


def _tell(agent: socket.socket, word: str) -> None:
    try:
        agent.send(word[:NO_LETTERS].encode())
    except OSError:
        # The agent is gone, which the next look at the socket tells.
        return
