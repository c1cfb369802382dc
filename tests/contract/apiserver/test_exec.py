"""pods/exec and pods/attach at the API: who is let through, what is refused, and how many run at once."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import ssl
import threading
import zlib
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

import pytest

from kvedge.resources.names import GUESTFS_IMAGE
from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.routes import exec_routes, remote_streams
from kvedge.standalone.apiserver.routes.exec_source import ExecRequest, ExecSession, NoExec
from kvedge.standalone.apiserver.wire.spdy_frames import DICTIONARY
from tests.contract.apiserver.conftest import load_pair
from tests.support.api_client import ApiClient, eventually
from tests.support.raw_websocket import RawWebSocket, UpgradeRefused

pytestmark = pytest.mark.contract
EXEC = "/api/v1/namespaces/default/pods/p/exec"
V5 = "v5.channel.k8s.io"


class PlayedProcesses:
    """An agent whose processes are pipes of the test's: each says hello, and ends when the test says so."""

    def __init__(self) -> None:
        self.asked: list[ExecRequest] = []
        self._answers: list[int] = []
        self._inputs: list[int] = []
        # Cleared, it keeps commands from beginning.
        self.may_begin = threading.Event()
        self.may_begin.set()

    def begin_exec(self, request: ExecRequest) -> ExecSession:
        if request.command[0] == "nothing":
            raise NoExec("there is no such program")
        self.asked.append(request)
        assert self.may_begin.wait(30)
        output, printing = os.pipe()
        answer, telling = os.pipe()
        if request.command[0] == "much":
            # All that the pipe takes; somebody whom the process leaves behind holds it open.
            os.write(printing, b"x" * 65536)
            self._answers.append(printing)
        else:
            os.write(printing, b"hello")
            os.close(printing)
        self._answers.append(telling)
        taking, given = os.pipe() if request.stdin else (None, None)
        if taking is not None:
            # Never read.
            self._inputs.append(taking)
        for descriptor in {output, answer, given} - {None}:
            assert descriptor is not None
            os.set_blocking(descriptor, False)
        return ExecSession(output, None, given, answer)

    def end(self, code: bytes = b'{"exit_code": 0}') -> None:
        """End the process that began last."""
        telling = self._answers.pop()
        os.write(telling, code)
        os.close(telling)

    def is_let_go(self) -> bool:
        """Whether nobody waits any more for the process that began last: it would be killed."""
        if not self._answers:
            return False
        try:
            os.write(self._answers[-1], b" ")
        except BrokenPipeError:
            return True
        return False

    def close(self) -> None:
        for descriptor in (*self._answers, *self._inputs):
            os.close(descriptor)


class Box:
    def __init__(self, directory: Path) -> None:
        self.processes = PlayedProcesses()
        self._api = EmbeddedApi(ApiServerConfig(directory, port=0, node_name="box"), None, self.processes)
        self._directory = directory
        self._api.start()
        self.url = self._api.address
        self.admin = ApiClient(self.url, self.context("admin", "system:masters"))
        container = {"name": "c", "image": "x"}
        pod = {"metadata": {"name": "p"}, "spec": {"restartPolicy": "Never", "containers": [container]}}
        self.admin.made("/api/v1/namespaces/default/pods", pod)

    def context(self, user: str, *groups: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._api.pki.servers.certificate_pem.decode())
        pair = self._api.pki.clients.issue_client(Subject(user, groups))
        load_pair(context, self._directory, pair.certificate, pair.key)
        return context

    def stop(self) -> None:
        self.admin.close()
        self._api.stop()
        self.processes.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    made.stop()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


async def begun(box: Box, user: str = "admin", command: str = "a", protocol: str = V5, more: str = "") -> RawWebSocket:
    """The websocket of a command, once its channels are there."""
    url = f"{box.url}{EXEC}?command={command}&stdout=true{more}"
    socket = await RawWebSocket.open(url, box.context(user, "system:masters"), protocol)
    assert await socket.receive_data() == b"\x01"
    return socket


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
@in_a_loop
async def test_a_command_s_output_and_its_end_come_over_the_channels(box: Box, protocol: str) -> None:
    socket = await begun(box, command="a&command=b%20c", protocol=protocol)
    assert socket.protocol == protocol
    assert await socket.receive_data() == b"\x01hello"
    box.processes.end(b'{"exit_code": 3}')
    code, _, last = await socket.receive_close()
    socket.vanish()
    assert (code, last[:1]) == (1000, b"\x03")
    assert b'"reason":"NonZeroExitCode"' in last
    assert b'{"reason":"ExitCode","message":"3"}' in last
    assert [request.command for request in box.processes.asked] == [("a", "b c")]


@in_a_loop
async def test_a_command_that_cannot_be_run_says_why_on_the_error_channel(box: Box) -> None:
    socket = await begun(box, command="nothing")
    _, _, last = await socket.receive_close()
    socket.vanish()
    assert b"there is no such program" in last


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param("command=a&stdout=true", "to a websocket with v5", id="no websocket"),
        pytest.param("stdout=true", "at least one command", id="no command"),
        pytest.param("command=&stdout=true", "at least one command", id="an empty command"),
        pytest.param("command=a", "at least one of stdin, stdout, stderr", id="no stream"),
        pytest.param("command=a%00b&stdout=true", "null byte", id="a null byte"),
        pytest.param("command=a&stdout=true&container=d", "container d is not valid", id="no such container"),
    ],
)
def test_what_is_no_command_is_refused_before_anything_runs(box: Box, query: str, words: str) -> None:
    for method in ("GET", "POST"):
        answer = box.admin.ask(method, f"{EXEC}?{query}")
        assert answer.status == 400, answer.body
        assert words in answer.message
    assert box.processes.asked == []


def test_a_pod_that_is_not_there_is_not_found(box: Box) -> None:
    assert box.admin.get(EXEC.replace("/p/", "/q/"), command="a", stdout="true").status == 404


@in_a_loop
async def test_what_a_command_printed_last_reaches_a_client_that_reads_later(box: Box) -> None:
    socket = await begun(box, command="much")
    assert await socket.receive_data() == b"\x01" + b"x" * 32768
    box.processes.end()
    _, _, data = await socket.receive_close()
    socket.vanish()
    printed, _, status = data.partition(b"\x03")
    assert printed.replace(b"\x01", b"") == b"x" * 32768
    assert b'"status":"Success"' in status


@in_a_loop
async def test_so_many_commands_of_one_user_and_no_more(box: Box) -> None:
    sockets = [await begun(box) for _ in range(32)]
    answer = await asyncio.to_thread(box.admin.get, EXEC, command="a", stdout="true")
    assert answer.status == 429, answer.body
    # Somebody else's are not fewer for it.
    others = await begun(box, "other-admin")
    for socket in sockets:
        await socket.leave()
    again = await begun(box)
    for socket in (others, again):
        socket.vanish()


@in_a_loop
async def test_service_accounts_of_a_namespace_count_together_and_who_has_none_gets_one(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_routes, "_MOST_OF_ONE", 2)
    monkeypatch.setattr(exec_routes, "_MOST", 3)
    account = "system:serviceaccount:n:"
    sockets = [await begun(box, f"{account}{name}") for name in "ab"]
    with pytest.raises(UpgradeRefused, match="429"):
        await begun(box, f"{account}c")
    sockets += [await begun(box, "ann"), await begun(box, "joe")]
    # Now that all are taken a second one has to wait.
    with pytest.raises(UpgradeRefused, match="429"):
        await begun(box, "joe")
    for socket in sockets:
        socket.vanish()


@in_a_loop
async def test_a_command_that_does_not_read_its_input_is_let_go_with_its_client(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_streams, "_STUCK_SECONDS", 0.5)
    socket = await begun(box, more="&stdin=true")
    for _ in range(8):
        # More than the pipe and the server's own queue take.
        socket.send(b"\0" + b"x" * 100_000)
    _, _, last = await socket.receive_close()
    socket.vanish()
    assert b"read nothing of its input" in last
    await asyncio.to_thread(eventually, box.processes.is_let_go)


@in_a_loop
async def test_who_hangs_up_while_commands_begin_gets_no_more_of_them(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_routes, "_MOST_OF_ONE", 2)
    box.processes.may_begin.clear()
    for count in (1, 2):
        socket = await begun(box)
        await asyncio.to_thread(eventually, lambda count=count: len(box.processes.asked) == count)
        socket.vanish()
    await asyncio.sleep(0.2)
    with pytest.raises(UpgradeRefused, match="429"):
        await begun(box)
    box.processes.may_begin.set()
    await asyncio.to_thread(eventually, box.processes.is_let_go)


@in_a_loop
async def test_a_command_whose_client_goes_before_or_while_it_runs_is_let_go(box: Box) -> None:
    box.processes.may_begin.clear()
    early = await begun(box)
    await asyncio.to_thread(eventually, lambda: box.processes.asked)
    early.vanish()
    box.processes.may_begin.set()
    await asyncio.to_thread(eventually, box.processes.is_let_go)
    late = await begun(box)
    assert await late.receive_data() == b"\x01hello"
    late.vanish()
    await asyncio.to_thread(eventually, box.processes.is_let_go)


def test_a_server_that_stops_ends_what_runs(tmp_path: Path) -> None:
    box = Box(tmp_path)

    @in_a_loop
    async def run() -> None:
        socket = await begun(box)
        assert await socket.receive_data() == b"\x01hello"
        stopping = asyncio.create_task(asyncio.to_thread(box.stop))
        _, _, last = await socket.receive_close()
        socket.vanish()
        assert b"this server stops" in last
        await stopping

    run()


@in_a_loop
async def test_who_attaches_to_the_container_of_guestfs_gets_a_shell_in_it_and_in_no_other_one(box: Box) -> None:
    container = {"name": "libguestfs", "image": GUESTFS_IMAGE, "command": ["/entrypoint.sh"]}
    pod = {"metadata": {"name": "look"}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    box.admin.made("/api/v1/namespaces/default/pods", pod)
    url = f"{box.url}/api/v1/namespaces/default/pods/look/attach?stdin=true&stdout=true&tty=true"
    socket = await RawWebSocket.open(url, box.context("admin", "system:masters"), V5)
    assert await socket.receive_data() == b"\x01"
    assert await socket.receive_data() == b"\x01hello"
    box.processes.end()
    await socket.receive_close()
    socket.vanish()
    (asked,) = box.processes.asked
    assert (asked.pod, asked.command) == ("look", ("/entrypoint.sh", "shell"))
    assert asked.stdin
    assert asked.terminal
    other = box.admin.ask("GET", f"{EXEC.replace('exec', 'attach')}?stdin=true&stdout=true")
    assert other.status == 400
    assert "has no standard input" in other.message


SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


class SpdyClient:
    """As kubectl before 1.31: a connection of its own, and the streams that it opens."""

    def __init__(
        self, box: Box, query: str, user: str = "admin", *groups: str, offers: str = "v4.channel.k8s.io"
    ) -> None:
        place = urlsplit(box.url)
        raw = create_connection((place.hostname, place.port), 30)
        self.connection = box.context(user, *(["system:masters"] if user == "admin" else [])).wrap_socket(
            raw, server_hostname=place.hostname
        )
        lines = [f"POST {EXEC}?{query} HTTP/1.1", f"Host: {place.netloc}", "Content-Length: 0"]
        lines += [f"{name}: {value}" for name, value in {**SPDY, "X-Stream-Protocol-Version": offers}.items()]
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode())
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            self.head += self.connection.recv(1)
        self._compress = zlib.compressobj(zdict=DICTIONARY)

    @property
    def status(self) -> int:
        return int(self.head.split()[1])

    def open(self, kind: str, number: int, more: int = 0) -> None:
        block = (1).to_bytes(4) + b"".join(len(text).to_bytes(4) + text for text in (b"streamtype", kind.encode()))
        packed = self._compress.compress(block + bytes(more)) + self._compress.flush(zlib.Z_SYNC_FLUSH)
        body = number.to_bytes(4) + bytes(6) + packed
        self.connection.sendall(b"\x80\x03\x00\x01" + len(body).to_bytes(4) + body)

    def read_all(self) -> dict[int, bytes]:
        """What has come on each stream once the server ends the connection."""
        heard = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while piece := self.connection.recv(65536):
                heard += piece
        told: dict[int, bytes] = {}
        while len(heard) >= 8:
            size = int.from_bytes(heard[5:8])
            if not heard[0] & 0x80:
                stream = int.from_bytes(heard[:4])
                told[stream] = told.get(stream, b"") + heard[8 : 8 + size]
            heard = heard[8 + size :]
        return told


OpenSpdy = Callable[..., SpdyClient]


@pytest.fixture
def spdy(box: Box) -> Iterator[OpenSpdy]:
    """Opens clients of SPDY, and closes them in the end."""
    with contextlib.ExitStack() as stack:

        def open_client(query: str, user: str = "admin", **more: str) -> SpdyClient:
            made = SpdyClient(box, query, user, **more)
            stack.enter_context(contextlib.closing(made.connection))
            return made

        yield open_client


def test_a_command_runs_over_spdy_and_tells_how_it_ended(box: Box, spdy: OpenSpdy) -> None:
    client = spdy("command=a&stdout=true&stderr=true", offers="v5.channel.k8s.io, v4.channel.k8s.io")
    assert (client.status, b"x-stream-protocol-version: v4.channel.k8s.io" in client.head.lower()) == (101, True)
    for number, kind in ((1, "error"), (3, "stdout"), (5, "stderr")):
        client.open(kind, number)
    eventually(lambda: box.processes.asked)
    box.processes.end(b'{"exit_code": 3}')
    told = client.read_all()
    assert told[3] == b"hello"
    assert json.loads(told[1])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


@pytest.mark.parametrize("end", ["vanishes", "talks nonsense"])
def test_a_client_of_spdy_that_goes_ends_its_command(box: Box, spdy: OpenSpdy, end: str) -> None:
    client = spdy("command=a&stdout=true")
    client.open("error", 1)
    client.open("stdout", 3)
    eventually(lambda: box.processes.asked)
    if end == "vanishes":
        client.connection.close()
    else:
        client.connection.sendall(b"\x80\x09\x00\x01\x00\x00\x00\x00")
    eventually(box.processes.is_let_go)


def test_headers_of_spdy_that_grow_too_large_start_nothing(box: Box, spdy: OpenSpdy) -> None:
    client = spdy("command=a&stdout=true")
    client.open("error", 1, more=1 << 20)
    assert client.read_all() == {}
    assert box.processes.asked == []


def test_who_may_not_run_commands_gets_no_spdy_and_old_channels_are_refused(spdy: OpenSpdy) -> None:
    assert spdy("command=a&stdout=true", "nobody").status == 403
    assert spdy("command=a&stdout=true", offers="channel.k8s.io").status == 400


def test_commands_over_spdy_count_like_all_others(spdy: OpenSpdy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_routes, "_MOST_OF_ONE", 1)
    first = spdy("command=a&stdout=true")
    assert (first.status, spdy("command=a&stdout=true").status) == (101, 429)
    # It has not opened a stream, and holds its place until it goes.
    first.connection.close()
    eventually(lambda: spdy("command=a&stdout=true").status == 101)
