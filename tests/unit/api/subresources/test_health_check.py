"""The aggregated API's /healthz asks the API server once a second at most, however many want to know."""

from __future__ import annotations

import asyncio

from kvedge.api.subresources.health_check import HealthCheck
from kvedge.api.subresources.status_message import internal


class Server:
    """Counts its calls; is away on the second one."""

    def __init__(self) -> None:
        self.calls = 0
        self.now = 100.0

    async def version(self) -> str:
        self.calls += 1
        await asyncio.sleep(0)
        if self.calls == 2:
            raise internal("away")
        return "v1"

    def monotonic(self) -> float:
        return self.now


OK = 200, {"apiserver": {"connectivity": "ok", "version": "v1"}, "config-resource-version": ""}


def test_many_at_once_share_one_call_and_its_answer_for_a_second() -> None:
    async def run() -> None:
        server = Server()
        health = HealthCheck(server.version, server.monotonic)
        assert await asyncio.gather(*(health.answer() for _ in range(50))) == [OK] * 50
        server.now += 0.9
        assert await health.answer() == OK
        assert server.calls == 1
        server.now += 0.2
        assert await health.answer() == (500, {"apiserver": {"connectivity": "failed", "error": "away"}})
        server.now += 1.0
        assert await health.answer() == OK
        assert server.calls == 3

    asyncio.run(run())


def test_one_that_leaves_takes_the_answer_from_nobody() -> None:
    async def run() -> None:
        server = Server()
        health = HealthCheck(server.version, server.monotonic)
        leaver, other = (asyncio.ensure_future(health.answer()) for _ in range(2))
        await asyncio.sleep(0)
        leaver.cancel()
        assert await other == OK
        assert server.calls == 1

    asyncio.run(run())
