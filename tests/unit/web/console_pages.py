"""A console before one played user: what pages send it, without a cluster behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import AppRunner

from kvedge.web.console_app import ConsoleApp
from kvedge.web.live_rows import LiveRows
from kvedge.web.usage_looks import UsageLooks
from kvedge.web.web_user import WebUser

COOKIE = "console"


class QuietRows:
    """Rows of which nothing is ever known."""

    generation = 0

    def is_complete(self) -> bool:
        return False

    def trouble(self) -> str:
        return ""

    async def wait_changed(self, _seen: int, seconds: float) -> None:
        await asyncio.sleep(seconds)


class NoStrangers:
    """Several users may sign in here; the tests begin their sessions themselves."""

    async def sign_in(self, *_: Any) -> str:
        raise AssertionError("nobody signs in here")

    def end(self, user: WebUser) -> None:
        """Nothing of a played user is left."""


class PatientServer(TestServer):
    """As consoles are served: a page that leaves does not end what answers it."""

    async def _make_runner(self, **kwargs: Any) -> AppRunner:
        return AppRunner(self.app, **{**kwargs, "handler_cancellation": False})


@dataclass(frozen=True)
class Pages:
    """The pages of the users of one console."""

    console: ConsoleApp
    client: TestClient[Any, Any]
    origin: str

    def sign_in(self, name: str) -> str:
        """The Cookie header of a new session of this user."""
        user = WebUser(cast(Any, None), None, cast(LiveRows, QuietRows()), cast(UsageLooks, None), name)
        return f"{COOKIE}={self.console.desk.begin(user, name)}"

    def connections(self) -> list[Any]:
        """Those that the console holds."""
        return list(cast(PatientServer, self.client.server).handler.connections)

    async def get(self, path: str, cookie: str) -> tuple[int, Any]:
        async with self.client.get(path, headers={"Cookie": cookie}) as answer:
            assert "trusted-types 'none'" in answer.headers["Content-Security-Policy"]
            return answer.status, await answer.json()

    async def post(self, path: str, cookie: str, body: Any) -> tuple[int, Any]:
        sent = {"Cookie": cookie, "Origin": self.origin, "X-Kvedge-Console": "1"}
        async with self.client.post(path, json=body, headers=sent) as answer:
            assert "trusted-types 'none'" in answer.headers["Content-Security-Policy"]
            return answer.status, await answer.json()

    async def open_live(self, cookie: str) -> aiohttp.ClientWebSocketResponse:
        return await self.client.ws_connect("/live", headers={"Cookie": cookie, "Origin": self.origin})


def browse(test: Callable[[Pages], Awaitable[None]], *, of_many: bool = True) -> None:
    """Run a test against a console of several users, or of one."""

    async def run() -> None:
        origins: dict[str, str] = {}
        console = ConsoleApp(origins, COOKIE, strangers=NoStrangers() if of_many else None)
        async with asyncio.timeout(30), TestClient(PatientServer(console.application())) as client:
            host = f"{client.host}:{client.port}"
            origins[host] = f"http://{host}"
            await test(Pages(console, client, origins[host]))

    asyncio.run(run())
