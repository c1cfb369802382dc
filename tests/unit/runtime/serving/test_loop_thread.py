"""A server's event loop in its thread: the start that fails, the loop that ends, and the way down."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from kvedge.runtime.serving.loop_thread import LoopThread, Serving, bind_socket, wait_closed
from tests.support.waiting import wait_until


@pytest.fixture
def life() -> list[str]:
    return []


async def _serve(serving: Serving) -> None:
    await serving()


def test_a_start_returns_when_it_serves_and_a_stop_when_all_has_ended(life: list[str]) -> None:
    async def serve(serving: Serving) -> None:
        life.append("ready")
        await serving()
        life.append("going down")

    thread = LoopThread("test", "the loop")
    thread.start(serve, at_end=lambda: life.append("over"))
    assert (life, thread.failure()) == (["ready"], None)
    assert thread.stop(10)
    assert life == ["ready", "going down", "over"]
    assert thread.failure() is None
    assert "test" not in [each.name for each in threading.enumerate()]


def test_what_fails_before_it_serves_is_raised_by_the_start_once_all_has_ended(life: list[str]) -> None:
    async def serve(serving: Serving) -> None:
        raise LookupError("no such store")

    thread = LoopThread("test", "the loop")
    with pytest.raises(LookupError, match="no such store"):
        thread.start(serve, at_end=lambda: life.append("over"))
    assert life == ["over"]


def test_a_start_that_takes_too_long_says_so() -> None:
    async def serve(serving: Serving) -> None:
        await asyncio.sleep(0.5)
        await serving()

    thread = LoopThread("test", "the loop")
    with pytest.raises(TimeoutError):
        thread.start(serve, seconds=0.01)
    wait_until(lambda: thread.stop(1), "it ends all the same")


@pytest.mark.parametrize("error", [None, OSError("the disk is full")], ids=["by itself", "by an error"])
def test_a_loop_that_ends_unasked_is_a_failure(error: Exception | None, life: list[str]) -> None:
    end = threading.Event()

    async def serve(serving: Serving) -> None:
        task = asyncio.ensure_future(serving())
        while not end.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        if error is not None:
            raise error

    thread = LoopThread("test", "the loop")
    thread.start(serve, at_end=lambda: life.append("over"))
    assert thread.failure() is None
    end.set()
    wait_until(lambda: thread.failure() is not None, "it is noticed")
    assert thread.failure() == ("the loop has ended" if error is None else "OSError: the disk is full")
    assert life == ["over"]
    assert thread.stop(1)


def test_a_stop_does_not_wait_for_ever_for_a_loop_that_is_stuck() -> None:
    thread, let_go = LoopThread("test", "the loop"), threading.Event()
    thread.start(_serve)
    assert thread.loop is not None
    thread.loop.call_soon_threadsafe(let_go.wait, 60)
    assert not thread.stop(0.05)
    let_go.set()
    wait_until(lambda: "test" not in [each.name for each in threading.enumerate()], "it ends when it can")


def test_one_that_was_never_started_can_be_stopped() -> None:
    thread = LoopThread("test", "the loop")
    assert thread.stop(0)
    assert thread.failure() is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_that_is_taken_is_refused(host: str) -> None:
    with bind_socket(host, 0) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bind_socket(host, first.getsockname()[1])


def test_the_end_of_connections_is_waited_for_a_while() -> None:
    one, other = socket.socketpair()
    begun = time.monotonic()
    asyncio.run(wait_closed([one], 0.05))
    assert time.monotonic() - begun >= 0.05
    one.close()
    other.close()
    begun = time.monotonic()
    asyncio.run(wait_closed([one, other], 30))
    assert time.monotonic() - begun < 10
