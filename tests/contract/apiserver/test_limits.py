"""What one client, or a thousand, may take from the embedded API: connections, time and memory are bounded."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kvedge.runtime.open_files import raise_open_files
from kvedge.runtime.serving import connection_acceptor, connection_book
from kvedge.runtime.serving.connection_acceptor import MOST_HANDSHAKES
from kvedge.standalone.apiserver import connection_gate
from kvedge.standalone.apiserver.connection_gate import Limits, limits_for
from kvedge.standalone.apiserver.requests import request_body
from tests.contract.apiserver.conftest import embedded
from tests.support.api_client import ApiClient, eventually, names
from tests.support.api_nursery import ApiNursery, ApiProcess, nursery
from tests.support.raw_http import RawHttp, is_open, received
from tests.support.widgets import config_map, config_maps

pytestmark = pytest.mark.contract

_MB = 1 << 20


@pytest.fixture(scope="module")
def born() -> Iterator[ApiNursery]:
    # The test holds more connections than the usual limit of a shell allows.
    if raise_open_files() < 4096:
        pytest.skip("needs a hard limit of at least 4096 open files (ulimit -Hn)")
    with nursery() as made:
        yield made


@pytest.fixture
def process(born: ApiNursery, tmp_path: Path) -> Iterator[ApiProcess]:
    """A server whose memory is its own."""
    made = born.start(tmp_path)
    yield made
    made.kill()


@contextlib.contextmanager
def held(connections: list[socket.socket]) -> Iterator[list[socket.socket]]:
    """Close them in the end."""
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def test_a_thousand_half_open_connections_keep_nobody_away(process: ApiProcess) -> None:
    before, raw = process.memory(), process.raw()
    with held([]) as half_open:
        for _ in range(1000):
            half_open.append(raw.connect())
            # The beginning of a handshake, and nothing more.
            half_open[-1].sendall(b"\x16\x03\x01\x02\x00")
        admin = process.client()
        admin.made(config_maps("default"), config_map("through"))
        eventually(lambda: process.descriptors() < MOST_HANDSHAKES + 80)
        assert process.memory() - before < 48 * _MB
        admin.close()
    eventually(lambda: process.descriptors() < 60)


def test_hundreds_of_clients_may_come_at_once(process: ApiProcess) -> None:
    # Altogether fewer than may be in the middle of their handshake, as here nobody is slow on purpose.
    clients, each = 20, 3
    assert clients * each < MOST_HANDSHAKES
    statuses: list[int] = []
    gate = threading.Barrier(clients)

    def come() -> None:
        raw = process.raw()
        gate.wait(60)
        with held([]) as mine:
            # All TCP connections before the first handshake.
            mine += [raw.connect() for _ in range(each)]
            for index, connection in enumerate(mine):
                mine[index] = raw.context.wrap_socket(connection, server_hostname="127.0.0.1")
                mine[index].sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                statuses.append(int(received(mine[index]).split(b" ", 2)[1]))

    threads = [threading.Thread(target=come, name=f"client-{number}") for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * clients * each


def test_two_thousand_idle_connections_of_nobody_keep_nobody_away(process: ApiProcess) -> None:
    anonymous, before = process.raw(certificate=False), process.memory()
    admin = process.client()
    watch = admin.watch(config_maps("default"))
    with held([]) as idle:
        for _ in range(2000):
            idle.append(anonymous.secure())
        eventually(lambda: process.descriptors() < Limits().of_nobody + 80)
        assert is_open(idle[-1])
        assert not is_open(idle[0])
        admin.made(config_maps("default"), config_map("through"))
        assert watch.wait(1)[0]["object"]["metadata"]["name"] == "through"
        assert process.memory() - before < 96 * _MB
    watch.close()
    admin.close()


def test_one_user_with_too_many_connections_loses_his_own_oldest_idle_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "kvedge.standalone.apiserver.api_server.limits_for", lambda files: Limits(total=60, of_one=20, of_nobody=10)
    )
    for server in embedded(tmp_path):
        greedy = RawHttp(server.url, server.log_in("greedy", ["system:masters"]).context)
        modest = server.log_in("modest", ["system:masters"])
        at_work = modest.watch(config_maps("default"))
        with held([greedy.secure() for _ in range(50)]) as connections:
            eventually(lambda opened=connections: sum(map(is_open, opened)) == 20)
            assert all(map(is_open, connections[-20:]))
            modest.made(config_maps("default"), config_map("through"))
            assert at_work.wait(1)[0]["object"]["metadata"]["name"] == "through"
            # The one that was used last is the last to go.
            connections[-20].settimeout(10)
            connections[-20].sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in received(connections[-20])
            with held([greedy.secure() for _ in range(19)]):
                eventually(lambda opened=connections: sum(map(is_open, opened)) == 1)
                assert is_open(connections[-20])
        at_work.close()


def test_connections_at_work_are_never_given_up_for_new_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "kvedge.standalone.apiserver.api_server.limits_for", lambda files: Limits(total=60, of_one=5, of_nobody=10)
    )
    for server in embedded(tmp_path):
        busy = server.log_in("busy", ["system:masters"])
        watches = [busy.watch(config_maps("default")) for _ in range(5)]
        raw = RawHttp(server.url, busy.context)
        with held([raw.secure()]) as refused:
            eventually(lambda: not is_open(refused[0]))
        server.admin.made(config_maps("default"), config_map("seen"))
        for watch in watches:
            assert watch.wait(1)[0]["object"]["metadata"]["name"] == "seen"
            watch.close()


def test_limits_leave_descriptors_to_others() -> None:
    assert limits_for(65536) == Limits()
    few = limits_for(1024)
    assert (few.total, few.of_one, few.of_nobody) == (512, 384, 64)
    assert limits_for(10).total == 64


def test_who_connects_and_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connection_book, "FIRST_REQUEST_SECONDS", 2.0)
    monkeypatch.setattr(connection_acceptor, "HANDSHAKE_SECONDS", 2.0)
    for server in embedded(tmp_path):
        raw = RawHttp(server.url, server.admin.context)
        slow = raw.secure()
        slow.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow")
        with held([raw.connect(), raw.secure(), slow]) as connections:
            for connection in connections:
                eventually(lambda one=connection: not is_open(one))
        assert server.admin.get("/version").status == 200


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.3)
    for server in embedded(tmp_path):
        raw = RawHttp(server.url, server.admin.context)
        start = f"POST {config_maps('default')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        status, answer = raw.say(f'{start}Content-Length: 500\r\nConnection: close\r\n\r\n{{"a":'.encode())
        assert status == 408, answer
        assert b"did not come within" in answer
        status, answer = raw.say(
            f'{start}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\n{{"a":\r\n'.encode()
        )
        assert status == 408, answer


def test_a_body_that_is_announced_too_large_is_not_read(process: ApiProcess) -> None:
    start = f"POST {config_maps('default')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    status, _ = process.raw().say(start + b"Content-Length: 99999999999\r\nConnection: close\r\n\r\n{")
    assert status == 413


def test_requests_beyond_what_is_worked_on_are_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connection_gate, "WRITES", 2)
    for server in embedded(tmp_path):
        raw = RawHttp(server.url, server.admin.context)
        start = f"POST {config_maps('default')} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
        with held([raw.secure(), raw.secure()]) as writing:
            for connection in writing:
                connection.sendall(start + b"Content-Length: 50\r\n\r\n{")
            answer = eventually(lambda admin=server.admin: _refused(admin))
            assert answer.json["reason"] == "TooManyRequests"
            assert answer.headers["Retry-After"] == "1"
            # Reads have room of their own.
            assert server.admin.get(config_maps("default")).status == 200
        eventually(lambda admin=server.admin: admin.post(config_maps("default"), config_map("later")).status == 201)


def _refused(admin: ApiClient) -> object:
    answer = admin.post(config_maps("default"), config_map("refused"), dryRun="All")
    return answer if answer.status == 429 else None


def has_end_here(port: int) -> bool:
    """Whether this process still holds the other end of a connection from this port."""
    return any(one.raddr and one.raddr.port == port for one in psutil.Process().net_connections("tcp"))


def test_an_answer_that_is_not_taken_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for server in embedded(tmp_path):
        for number in range(12):
            server.admin.made(config_maps("default"), config_map(f"c{number}", text="x" * 1_000_000))
        monkeypatch.setattr(connection_gate, "_ANSWER_SECONDS", 0.3)
        monkeypatch.setattr(connection_gate, "_ANSWER_RATE", 1 << 40)
        raw = RawHttp(server.url, server.admin.context)
        with held([raw.secure()]) as lazy:
            lazy[0].sendall(f"GET {config_maps('default')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            port = lazy[0].getsockname()[1]
            eventually(lambda port=port: has_end_here(port))
            eventually(lambda port=port: not has_end_here(port))
            # What the kernels hold in between comes; the rest never does.
            taken = 0
            with contextlib.suppress(OSError):
                while chunk := lazy[0].recv(1 << 20):
                    taken += len(chunk)
            assert taken < 12_000_000
        monkeypatch.undo()
        assert server.admin.get("/version").status == 200


def test_large_refused_bodies_leave_no_memory_behind(process: ApiProcess) -> None:
    body = b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * (4 << 20) + b'"}}'
    deep = b"[" * (1 << 20)

    def send() -> None:
        client = process.client()
        for _ in range(10):
            assert client.ask("POST", config_maps("default"), body).status == 413
            assert client.ask("POST", config_maps("default"), deep).status == 400
        client.close()

    send()
    before = process.memory()
    threads = [threading.Thread(target=send, name=f"sender-{number}") for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.memory() - before < 64 * _MB
    assert names(process.client().get(config_maps("default"))) == []


def test_watchers_that_do_not_read_hold_little_and_are_cut_off(process: ApiProcess) -> None:
    admin, raw = process.client(), process.raw()
    admin.made(config_maps("default"), config_map("big", text="x" * 500_000))
    request = f"GET {config_maps('default')}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    quick = admin.watch(config_maps("default"), fieldSelector="metadata.name=last")
    with held([raw.secure() for _ in range(20)]) as lazy:
        for connection in lazy:
            connection.sendall(request)
            assert connection.recv(1)
        before = process.memory()
        for number in range(120):
            assert admin.patch(config_maps("default", "big"), {"data": {"n": str(number)}}).status == 200
        # 60 MB were sent to each; what is kept for all of them together is one history.
        assert process.memory() - before < 160 * _MB
        eventually(lambda: process.descriptors() < 60)
    admin.made(config_maps("default"), config_map("last"))
    assert quick.wait(1)[0]["object"]["metadata"]["name"] == "last"
    quick.close()
    admin.close()


def test_a_client_of_another_authority_gets_no_connection(process: ApiProcess, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for other in embedded(tmp_path / "other"):
        context = other.admin.context
        context.load_verify_locations(process.directory / "state" / "pki" / "server-ca.crt")
        # With TLS 1.3 the client learns of it only when it reads.
        assert RawHttp(process.url, context).say(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n") == (0, b"")
