"""Strangers become users: how a console on a box takes a pasted credential, and how it lets its users go.

Made by `box_console`, called by `console_app` in its event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kvedge.runtime.background_tasks import passing_task
from kvedge.web.on_box.sign_in_tries import SignInTries
from kvedge.web.sign_in import SignInDesk, SignInRefused
from kvedge.web.web_user import WebUser

# Credentials that are looked at at the same time, of all who try.
_AT_ONCE: Final = 2
_WAITING: Final = 16
_FAILED_SECONDS: Final = 1.0


class Guests:
    """Takes credentials for one desk."""

    def __init__(
        self,
        open_user: Callable[[str], WebUser],
        close_user: Callable[[WebUser], None],
        tries: SignInTries,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`open_user` and `close_user` are called in threads."""
        self._open_user = open_user
        self._close_user = close_user
        self._tries = tries
        self._pause = pause
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._asking = 0
        self._ending: set[asyncio.Task[None]] = set()

    async def sign_in(self, desk: SignInDesk[WebUser], address: str, credential: str) -> str:
        """The cookie of a new session.

        Raises:
            SignInRefused: for a credential that is none, or when there are too many tries or sessions.
            KubeError: when the API server cannot be asked.
        """
        self._tries.check(address)
        if self._asking >= _WAITING:
            raise SignInRefused("too many sign in at this moment: try again")
        try:
            user = await self._open_in_turn(credential)
        except Exception:
            # Whatever it fails of: a text that trips us costs as much as a wrong token.
            self._tries.note_failure(address)
            # The place is given back by now: sixteen who fail must not keep all others out while they wait.
            await self._pause(_FAILED_SECONDS)
            raise
        try:
            cookie = desk.begin(user, user.name)
        except SignInRefused:
            self.end(user)
            raise
        user.rows.start()
        return cookie

    async def _open_in_turn(self, credential: str) -> WebUser:
        self._asking += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(self._open_user, credential)
        finally:
            self._asking -= 1

    def end(self, user: WebUser) -> None:
        """The user's session has ended."""

        async def close() -> None:
            await asyncio.to_thread(self._close_user, user)

        task = passing_task("console-user-end", close)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def wait_ended(self) -> None:
        """Until those whose sessions have ended are gone."""
        await asyncio.gather(*self._ending, return_exceptions=True)
