"""The streams of a command that runs in a container, as they come to the agent."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from kvedge.resources.names import CAPABILITIES_DIRECTORY
from kvedge.standalone.agent.container.container_sessions import _lacks_virsh, _receive_descriptors
from kvedge.standalone.apiserver.routes.exec_source import ExecRequest

HOST = "/usr/sbin:/usr/bin"
NEW = f"{CAPABILITIES_DIRECTORY}/bin:{HOST}"


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
        descriptors = _receive_descriptors(listener, told, time.monotonic() + 30)
        thread.join()
    assert [os.get_inheritable(descriptor) for descriptor in descriptors] == [False]
    for descriptor in (*descriptors, given, told, _answer):
        os.close(descriptor)


@pytest.mark.parametrize(
    ("pod", "container", "command", "path", "lacks"),
    [
        ("virt-launcher-web-abcde", "compute", ["virsh", "list"], HOST, True),
        ("virt-launcher-web-abcde", "compute", ["/usr/bin/virsh"], HOST, True),
        ("virt-launcher-web-abcde", "compute", ["virsh", "list"], NEW, False),
        ("virt-launcher-web-abcde", "compute", ["virsh", "-c", "x", "list"], HOST, False),
        ("virt-launcher-web-abcde", "compute", ["ps"], HOST, False),
        ("virt-launcher-web-abcde", "sidecar", ["virsh"], HOST, False),
        ("web", "compute", ["virsh"], HOST, False),
    ],
    ids=["an old launcher", "by its path", "a launcher that has one", "a connection", "ps", "a sidecar", "another pod"],
)
def test_only_a_launcher_of_before_lacks_a_virsh(
    pod: str, container: str, command: list[str], path: str, *, lacks: bool
) -> None:
    request = ExecRequest(namespace="n", pod=pod, pod_uid="u", container=container, command=command)
    assert _lacks_virsh(request, {"PATH": path}) is lacks
