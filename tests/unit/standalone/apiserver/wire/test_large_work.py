"""Work of a client's size: in threads, one piece at a time for each user."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from functools import partial
from unittest import mock

import pytest
from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.test_utils import make_mocked_request

from kvedge.standalone.apiserver.connection_gate import ConnectionGate, Limits
from kvedge.standalone.apiserver.dispatcher import Dispatcher
from kvedge.standalone.apiserver.requests.bytes_in_flight import FLIGHT, USER_BYTES
from kvedge.standalone.apiserver.requests.request_body import LIMIT, count_announced_bytes
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.wire.large_work import SMALL_BYTES, AtOnce, Lane, LargeWork

LARGE = SMALL_BYTES + 1


class Blocked:
    """A piece of work that goes on until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def work(self) -> str:
        self.begun.set()
        assert self.let_go.wait(30)
        return threading.current_thread().name


async def begun(blocked: Blocked) -> bool:
    return await asyncio.to_thread(blocked.begun.wait, 30)


def test_small_work_is_done_at_once_and_large_work_in_a_thread_of_its_own() -> None:
    async def names() -> tuple[str, str, str]:
        work = LargeWork()
        lane = work.lane("joe")

        def name() -> str:
            return threading.current_thread().name

        found = (await lane.run(SMALL_BYTES, name), await lane.run(LARGE, name), await AtOnce().run(LARGE, name))
        work.close()
        return found

    small, large, at_once = asyncio.run(names())
    assert small == at_once == threading.current_thread().name
    assert large.startswith("kvedge-large-work")


def test_one_users_pieces_wait_for_each_other_and_anothers_does_not() -> None:
    async def check() -> None:
        work, first, second, others = LargeWork(), Blocked(), Blocked(), Blocked()
        one = asyncio.create_task(work.lane("joe").run(LARGE, first.work))
        two = asyncio.create_task(work.lane("joe").run(LARGE, second.work))
        three = asyncio.create_task(work.lane("ann").run(LARGE, others.work))
        assert await begun(first)
        assert await begun(others)
        assert not second.begun.is_set()
        first.let_go.set()
        await one
        assert await begun(second)
        for blocked in (second, others):
            blocked.let_go.set()
        await asyncio.gather(two, three)
        work.close()

    asyncio.run(check())


@pytest.mark.parametrize("own", [("kvedge:controllers",), ("kvedge:apis",), ("kvedge:handlers",), ("kvedge:agents",)])
def test_kvedges_own_roles_do_not_wait_for_clients(own: tuple[str, ...]) -> None:
    async def check() -> None:
        work, blocked = LargeWork(), [Blocked(), Blocked()]
        busy = [
            asyncio.create_task(lane_of(work, f"user-{number}").run(LARGE, each.work))
            for number, each in enumerate(blocked)
        ]
        for each in blocked:
            assert await begun(each)
        async with asyncio.timeout(30):
            assert await lane_of(work, "role", *own).run(LARGE, lambda: "done") == "done"
            assert await work.lane("system:apiserver", own=True).run(LARGE, lambda: "done") == "done"
        for each in blocked:
            each.let_go.set()
        await asyncio.gather(*busy)
        work.close()

    asyncio.run(check())


def test_two_service_accounts_of_one_namespace_share_a_turn() -> None:
    async def check() -> None:
        work, first, second = LargeWork(), Blocked(), Blocked()
        one = asyncio.create_task(lane_of(work, "system:serviceaccount:n:a").run(LARGE, first.work))
        two = asyncio.create_task(lane_of(work, "system:serviceaccount:n:b").run(LARGE, second.work))
        other = asyncio.create_task(lane_of(work, "system:serviceaccount:m:a").run(LARGE, lambda: "other"))
        assert await begun(first)
        assert await other == "other"
        assert not second.begun.is_set()
        first.let_go.set()
        await one
        assert await begun(second)
        second.let_go.set()
        await two
        work.close()

    asyncio.run(check())


def lane_of(work: LargeWork, user: str, *groups: str) -> Lane:
    """The lane that the dispatcher gives a caller."""
    dispatcher = Dispatcher(*[mock.Mock()] * 6, {}, work, mock.Mock())
    return dispatcher._lane_of(Caller(user, groups))


def test_what_the_work_raises_reaches_the_one_who_asked_and_the_next_one_goes_on() -> None:
    async def check() -> None:
        work = LargeWork()
        lane = work.lane("joe")
        with pytest.raises(ZeroDivisionError):
            await lane.run(LARGE, lambda: 1 // 0)
        assert await lane.run(LARGE, lambda: "next") == "next"
        work.close()

    asyncio.run(check())


def test_one_who_gives_up_waiting_leaves_the_turn_to_the_next() -> None:
    async def check() -> None:
        work, first, third = LargeWork(), Blocked(), Blocked()
        lane = work.lane("joe")
        one = asyncio.create_task(lane.run(LARGE, first.work))
        assert await begun(first)
        two = asyncio.create_task(lane.run(LARGE, lambda: "never"))
        three = asyncio.create_task(lane.run(LARGE, third.work))
        await asyncio.sleep(0)
        two.cancel()
        for blocked in (first, third):
            blocked.let_go.set()
        await asyncio.gather(one, three)
        assert third.begun.is_set()
        work.close()

    asyncio.run(check())


@pytest.mark.parametrize("hang_ups", [1, 2])
def test_one_who_gives_up_while_a_thread_works_keeps_the_turn_until_the_thread_is_done(hang_ups: int) -> None:
    async def check() -> None:
        work, first, second = LargeWork(), Blocked(), Blocked()
        one = asyncio.create_task(work.lane("joe").run(LARGE, first.work))
        assert await begun(first)
        two = asyncio.create_task(work.lane("joe").run(LARGE, second.work))
        for _ in range(hang_ups):
            one.cancel()
            await several_turns_of_the_loop()
        assert not one.done()
        assert not second.begun.is_set()
        first.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await one
        assert await begun(second)
        second.let_go.set()
        await two
        work.close()

    asyncio.run(check())


def test_one_who_gives_up_before_a_thread_is_free_leaves_no_body_behind() -> None:
    class Body:
        """Stands for what a client has sent."""

    async def check() -> None:
        work, blocked = LargeWork(), [Blocked(), Blocked()]
        busy = [asyncio.create_task(work.lane(f"user-{i}").run(LARGE, each.work)) for i, each in enumerate(blocked)]
        for each in blocked:
            assert await begun(each)
        body = Body()
        seen = weakref.ref(body)
        waits = asyncio.create_task(work.lane("joe").run(LARGE, partial(repr, body)))
        del body
        await several_turns_of_the_loop()
        waits.cancel()
        await asyncio.wait([waits])
        assert waits.cancelled()
        del waits
        await several_turns_of_the_loop()
        gc.collect()
        assert seen() is None
        for each in blocked:
            each.let_go.set()
        await asyncio.gather(*busy)
        work.close()

    asyncio.run(check())


async def several_turns_of_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_request_whose_client_hung_up_counts_until_the_thread_is_done_with_it() -> None:
    """Through the server itself: the gate counts the request and its bytes."""

    async def check() -> None:
        work, blocked = LargeWork(), Blocked()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            request[FLIGHT].user = "joe"
            assert request[FLIGHT].take(USER_BYTES)
            return web.Response(text=await work.lane("joe").run(LARGE, blocked.work))

        gate = ConnectionGate(handle, lambda _: False, Limits(), 10)
        server = await asyncio.get_running_loop().create_server(gate, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: box\r\nContent-Length: 0\r\n\r\n")
        assert await begun(blocked)
        writer.transport.abort()
        while len(gate._book):
            await asyncio.sleep(0.01)
        await several_turns_of_the_loop()
        assert not gate._in_flight.fits("joe", 1)
        assert gate._working[False] == 1
        blocked.let_go.set()
        while gate._working[False]:
            await asyncio.sleep(0.01)
        assert gate._in_flight.fits("joe", USER_BYTES)
        server.close()
        gate.close()
        work.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        pytest.param({}, 0, id="no body"),
        pytest.param({"Content-Length": "5000"}, 5000, id="a length"),
        pytest.param({"Content-Length": str(10 * LIMIT)}, LIMIT, id="more than is read"),
        pytest.param({"Content-Length": "500", "Content-Encoding": "gzip"}, LIMIT, id="packed"),
        pytest.param({"Content-Length": "500", "Content-Encoding": "identity"}, 500, id="not packed"),
        pytest.param({"Transfer-Encoding": "chunked"}, LIMIT, id="of no length"),
    ],
)
def test_a_body_of_which_nobody_knows_the_size_is_a_large_one(headers: dict[str, str], size: int) -> None:
    assert count_announced_bytes(request_with(headers)) == size


def request_with(headers: dict[str, str]) -> web.Request:
    """A request whose body has begun to come, if its headers announce one."""
    protocol, loop = mock.Mock(_reading_paused=False), mock.Mock()
    body = StreamReader(protocol, 2**16, loop=loop) if headers else EMPTY_PAYLOAD
    return make_mocked_request("POST", "/", headers=headers, payload=body)
