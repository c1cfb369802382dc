"""One client's worst request against another's: the event loop serves small requests while large ones are worked on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.contract.apiserver.conftest import embedded
from tests.contract.apiserver.costs.decoder_cases import DECODERS
from tests.contract.apiserver.costs.measured import MeasuredServer
from tests.contract.apiserver.costs.requests import CONFIG_MAPS, Case, parts
from tests.contract.apiserver.costs.write_cases import WRITES
from tests.support.api_client import ApiClient, eventually
from tests.support.widgets import widget, widgets

pytestmark = pytest.mark.contract

# By name, and how large: so that each takes a second of CPU or more.
WORST: Final = {
    "a list of items in YAML": ("ordered maps", 45_000),
    "many values": ("data of a ConfigMap", 80_000),
    "lists by key": ("parts", 25_000),
    "what nobody looks into": ("what is not looked into", 60_000),
    "containers without anything": ("containers without anything", 180_000),
    "managers of fields": ("fields' managers", 18_000),
    "deep members, applied": ("deep members", 1_000),
    "a new object, applied": ("a new widget of many parts", 20_000),
}
# Of the time of the worst request. Who waits for a loop that is stuck waits for nearly all of it.
MOST_OF_IT: Final = 0.5
# What a machine that compiles beside the test may take from anybody.
ANYWAY: Final = 0.5


def case_named(name: str) -> Case:
    """The row of that name that is measured last: tables that come later are about more work."""
    rows = [case for table in (DECODERS, *WRITES.values()) for case in table]
    return [case for case in rows if case.name == name][-1]


@contextmanager
def small_requests(client: ApiClient) -> Iterator[list[float]]:
    """How long each small request of somebody takes, one after the other."""
    seconds: list[float] = []
    stopped = threading.Event()

    def ask() -> None:
        while not stopped.is_set():
            start = time.perf_counter()
            assert client.get(CONFIG_MAPS, limit="1").status == 200
            seconds.append(time.perf_counter() - start)

    thread = threading.Thread(target=ask, name="small requests")
    thread.start()
    try:
        yield seconds
    finally:
        stopped.set()
        thread.join()


@pytest.mark.parametrize("worst", WORST)
def test_small_requests_of_others_are_served_beside_the_worst(server: MeasuredServer, worst: str) -> None:
    name, size = WORST[worst]
    case = case_named(name)
    request = case.make(size)
    if case.there is not None:
        path, document = case.there(size)
        server.master.delete(f"{path}/{document['metadata']['name']}")
        server.master.made(path, document)
    with small_requests(server.users["view"]) as seconds:
        start = time.perf_counter()
        answer = server.users[case.role].ask(
            request.method, request.path, request.body, request.content_type, **dict(request.query)
        )
        whole = time.perf_counter() - start
    assert answer.status in (200, 201, 422), answer.body[:300]
    p99 = sorted(seconds)[int(len(seconds) * 0.99)]
    assert p99 <= max(MOST_OF_IT * whole, ANYWAY), f"{p99:.2f} s beside a request of {whole:.2f} s"


def test_one_who_sends_many_large_requests_leaves_a_thread_to_others(server: MeasuredServer) -> None:
    """Eight large requests of one user at once: one of another user's is done beside them, not after them."""
    case = case_named("parts")
    large, modest = case.make(8_000), case.make(1_000)
    greedy, other = server.users["edit"], server.users["admin"]
    ended: list[float] = []

    def send() -> None:
        answer = greedy.ask(large.method, large.path, large.body, large.content_type, **dict(large.query))
        assert answer.status == 201, answer.body[:300]
        ended.append(time.perf_counter())

    threads = [threading.Thread(target=send, name=f"greedy-{number}") for number in range(8)]
    for thread in threads:
        thread.start()
    answer = other.ask(modest.method, modest.path, modest.body, modest.content_type, **dict(modest.query))
    done = time.perf_counter()
    for thread in threads:
        thread.join()
    assert answer.status == 201
    assert len(ended) == len(threads)
    assert sum(end > done for end in ended) >= 4


def test_a_large_request_is_answered_while_the_server_stops(tmp_path: Path) -> None:
    servers = embedded(tmp_path)
    server = next(servers)
    client = server.log_in("admin", ["system:masters"])
    answers: list[int] = []
    # Other servers of this process may have such threads of their own.
    known = set(threading.enumerate())

    def begun() -> bool:
        return any(one.name.startswith("kvedge-large-work") for one in set(threading.enumerate()) - known)

    def send() -> None:
        answers.append(client.post(widgets("default"), widget("large", parts=parts(3_000))).status)

    thread = threading.Thread(target=send, name="large")
    thread.start()
    eventually(begun)
    # The server stops when its generator goes on.
    assert next(servers, None) is None
    thread.join()
    client.close()
    assert answers == [201]
