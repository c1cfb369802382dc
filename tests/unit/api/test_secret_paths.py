"""Webhooks that ask or write are there for those alone who know their path."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kvedge.api.secret_paths import SecretPaths
from tests.support.clocks import FakeClock

KEY = b"one" * 11
SUCCESSOR = b"two" * 11


def asked(paths: SecretPaths, *calls: str) -> list[int]:
    """What a webhook at /ask answers at each of these paths."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="judged")

    async def run() -> list[int]:
        application = web.Application()
        application.add_routes([paths.route("/ask", answer)])
        async with TestClient(TestServer(application)) as client:
            return [(await client.post(call, data=b"{}")).status for call in calls]

    return asyncio.run(run())


def test_without_the_part_nothing_is_there() -> None:
    paths = SecretPaths(lambda: (KEY,), FakeClock())
    part = paths.part_to_write()
    calls = ("/ask", "/ask/", "/ask/guess", "/ask/%C3%A9", f"/ask/{part[:-1]}", f"/ask/{part}/more", f"/other/{part}")
    assert asked(paths, f"/ask/{part}", *calls) == [200] + [404] * len(calls)
    assert len(part) == 32
    assert part.isalnum(), "a path of a webhook is made of DNS names"


def test_all_roles_with_a_key_answer_at_the_same_path() -> None:
    clock = FakeClock()
    part = SecretPaths(lambda: (KEY,), clock).part_to_write()
    assert asked(SecretPaths(lambda: (KEY,), clock), f"/ask/{part}") == [200]
    assert asked(SecretPaths(lambda: (SUCCESSOR,), clock), f"/ask/{part}") == [404]


def test_a_successor_of_the_key_is_answered_before_and_after_it_signs() -> None:
    clock, keys = FakeClock(), [KEY, SUCCESSOR]
    paths = SecretPaths(lambda: keys, clock)
    before = paths.part_to_write()
    # Another role has seen the change earlier than this one.
    other = SecretPaths(lambda: (SUCCESSOR,), clock).part_to_write()
    assert asked(paths, f"/ask/{before}", f"/ask/{other}") == [200, 200]
    keys.remove(KEY)
    assert paths.part_to_write() == other != before
    # And another one later.
    assert asked(paths, f"/ask/{before}", f"/ask/{other}") == [200, 200]


# Clocks of two hosts may be hours apart, and each answers to what the other one has written.
@pytest.mark.parametrize(("hours", "status"), [(1, 200), (-1, 200), (24, 200), (-24, 200), (25, 404), (-25, 404)])
def test_the_part_of_an_hour_is_answered_for_a_day(hours: int, status: int) -> None:
    clock = FakeClock()
    part = SecretPaths(lambda: (KEY,), clock).part_to_write()
    clock.set_wall(clock.now() + timedelta(hours=hours))
    assert asked(SecretPaths(lambda: (KEY,), clock), f"/ask/{part}") == [status]


def test_what_was_written_before_a_clock_was_set_right_is_answered_until_it_is_written_anew() -> None:
    clock = FakeClock()
    paths = SecretPaths(lambda: (KEY,), clock)
    first = paths.part_to_write()
    clock.set_wall(clock.now() + timedelta(days=9000))
    assert asked(paths, f"/ask/{first}") == [200]
    second = paths.part_to_write()
    paths.part_to_write()
    assert asked(paths, f"/ask/{first}", f"/ask/{second}") == [200, 200], "the API server follows a moment later"
    clock.set_wall(clock.now() + timedelta(days=9000))
    third = paths.part_to_write()
    assert asked(paths, f"/ask/{first}", f"/ask/{second}", f"/ask/{third}") == [404, 200, 200]
