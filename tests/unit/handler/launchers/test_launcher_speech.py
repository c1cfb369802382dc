# Tests: kvedge/handler/launchers/launcher_connections.py, kvedge/handler/launchers/launcher_socket.py
"""Launchers that say what no launcher says: the handler's connection outlives each of it, and comes back."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.handler.launchers import launcher_connections
from kvedge.handler.launchers.launcher_connections import LauncherCallError, LauncherConnections
from kvedge.handler.launchers.launcher_socket import launcher_socket_path
from kvedge.rpc import launcher_pb2
from tests.support.waiting import wait_until

KEY, UID, POD = ("default", "web"), "the-vmi", "the-pod"
# A length that promises more than there is, a tag of 0, a tag without a value, and a group without an end.
MALFORMED = [b"\x0a\xff\xff\xff\x0f", b"\x00", b"\x0a", b"\x0b"]
PING = launcher_pb2.PingReply(vmi_uid=UID, protocol=1, version="1").SerializeToString()
STATUS = launcher_pb2.DomainStatus(sequence=1).SerializeToString()


class _Held:
    """Stands for the launcher's process, which is this one."""

    def close(self) -> None:
        return None


class _Speaker(grpc.GenericRpcHandler):
    """Answers in bytes; what it says to each method may be changed at any time."""

    def __init__(self) -> None:
        self.says = {"Ping": PING, "WatchDomain": STATUS, "Pause": STATUS, "Screenshot": b""}
        self.over = threading.Event()
        self.asked = 0

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        self.asked += 1

        def one(request: bytes, context: Any) -> bytes:
            return self.says[method]

        def many(request: bytes, context: Any) -> Iterator[bytes]:
            said = self.says[method]
            yield said
            while method == "WatchDomain" and self.says[method] == said and not self.over.wait(0.02):
                continue

        if method in ("WatchDomain", "Screenshot"):
            return grpc.unary_stream_rpc_method_handler(many)
        return grpc.unary_unary_rpc_method_handler(one)


@contextmanager
def speaking(kubelet: Path) -> Iterator[_Speaker]:
    directory, name = launcher_socket_path(kubelet, POD)
    directory.mkdir(parents=True)
    speaker = _Speaker()
    with futures.ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool, handlers=[speaker])
        # A socket's path may have 107 characters; a test's directory has more.
        reachable = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        server.add_insecure_port(f"unix:/proc/self/fd/{reachable}/{name}")
        server.start()
        try:
            yield speaker
        finally:
            os.close(reachable)
            speaker.over.set()
            server.stop(None).wait()


@pytest.fixture
def speaker(tmp_path: Path) -> Iterator[_Speaker]:
    with speaking(tmp_path) as made:
        yield made


@pytest.fixture
def connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LauncherConnections]:
    monkeypatch.setattr(launcher_connections, "hold_listener", lambda descriptor, root: _Held())
    made = LauncherConnections(tmp_path, lambda key: None)
    made.start()
    yield made
    made.stop()


def connected(connections: LauncherConnections) -> Callable[[], bool]:
    return lambda: connections.view(KEY).connected


@pytest.mark.parametrize("method", ["Ping", "WatchDomain"])
@pytest.mark.parametrize("said", MALFORMED, ids=bytes.hex)
def test_a_launcher_that_speaks_nonsense_first_is_connected_once_it_speaks(
    speaker: _Speaker, connections: LauncherConnections, caplog: pytest.LogCaptureFixture, method: str, said: bytes
) -> None:
    speaker.says[method] = said
    connections.ensure(KEY, UID, POD)
    asked = speaker.asked
    wait_until(lambda: speaker.asked >= asked + 3, "it is asked again and again")
    assert not connections.view(KEY).connected
    assert caplog.text.count("speaks no protocol of ours") == 1, "told once"
    speaker.says |= {"Ping": PING, "WatchDomain": STATUS}
    wait_until(connected(connections), "the connection")


@pytest.mark.parametrize("said", MALFORMED, ids=bytes.hex)
def test_a_launcher_that_begins_to_speak_nonsense_is_down_until_it_speaks_again(
    speaker: _Speaker, connections: LauncherConnections, said: bytes
) -> None:
    connections.ensure(KEY, UID, POD)
    wait_until(connected(connections), "the connection")
    speaker.says["WatchDomain"] = said
    wait_until(lambda: not connections.view(KEY).connected, "its end")
    speaker.says["WatchDomain"] = STATUS
    wait_until(connected(connections), "the connection again")


@pytest.mark.parametrize("said", MALFORMED, ids=bytes.hex)
def test_an_answer_to_a_call_that_cannot_be_read_is_the_calls_error(
    speaker: _Speaker, connections: LauncherConnections, said: bytes
) -> None:
    connections.ensure(KEY, UID, POD)
    wait_until(connected(connections), "the connection")
    speaker.says |= {"Pause": said, "Screenshot": said}
    with pytest.raises(LauncherCallError, match="Pause cannot be read"):
        connections.call(KEY, "Pause", launcher_pb2.PauseRequest(), 5)
    assert connections.view(KEY).connected


@pytest.mark.parametrize("error", [ValueError, OverflowError, MemoryError])
def test_any_exception_in_one_connection_leaves_it_to_be_tried_again_and_the_others_alone(
    speaker: _Speaker,
    connections: LauncherConnections,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:
    thrown = iter([error("out of the blue"), error("and again")])
    open_socket = launcher_connections.open_socket

    def throwing(root: Path, name: str) -> int:
        for each in thrown:
            raise each
        return open_socket(root, name)

    monkeypatch.setattr(launcher_connections, "open_socket", throwing)
    connections.ensure(KEY, UID, POD)
    wait_until(connected(connections), "the connection")
    assert "background work failed" in caplog.text
