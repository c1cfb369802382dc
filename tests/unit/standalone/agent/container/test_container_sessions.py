"""The streams of a command that runs in a container, as they come to the agent."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

from kvedge.standalone.agent.container.container_sessions import _received


def test_streams_are_closed_at_an_exec_from_the_moment_they_come(tmp_path: Path) -> None:
    given = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    told, _answer = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def give() -> None:
            with socket.socket(socket.AF_UNIX) as giving:
                giving.connect(str(tmp_path / "s"))
                socket.send_fds(giving, [b"x"], [given])

        thread = threading.Thread(target=give)
        thread.start()
        os.set_blocking(told, False)
        descriptors = _received(listener, told, time.monotonic() + 30)
        thread.join()
    assert [os.get_inheritable(descriptor) for descriptor in descriptors] == [False]
    for descriptor in (*descriptors, given, told, _answer):
        os.close(descriptor)
