# Tests: kvedge/web/on_box/guests.py
"""How credentials are taken: what counts as a failed try, and who waits for whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kvedge.kube.errors import Unavailable
from kvedge.web.on_box import guests
from kvedge.web.on_box.guests import Guests
from kvedge.web.on_box.sign_in_tries import TRIES, SignInTries
from kvedge.web.sign_in import SignInDesk, SignInRefused


def refuse(error: Exception) -> Any:
    """An `open_user` that fails of this."""

    def open_user(_: str) -> Any:
        raise error

    return open_user


def desk() -> SignInDesk[Any]:
    return SignInDesk(lambda: 0.0)


async def at_once(_: float) -> None:
    """A pause that takes no time."""


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(SignInRefused("unknown"), id="a wrong token"),
        pytest.param(Unavailable(503, "Down", "no answer"), id="no answer"),
        pytest.param(KeyError("what nobody thought of"), id="anything else"),
    ],
)
def test_whatever_a_credential_fails_of_counts_as_a_try(error: Exception) -> None:
    async def run() -> None:
        taken = Guests(refuse(error), lambda user: None, SignInTries(lambda: 0.0), at_once)
        for _ in range(TRIES):
            with pytest.raises(type(error)):
                await taken.sign_in(desk(), "10.0.0.9", "x")
        with pytest.raises(SignInRefused, match="too many tries"):
            await taken.sign_in(desk(), "10.0.0.9", "x")

    asyncio.run(run())


def test_those_who_have_failed_keep_no_place_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "_WAITING", 1)

    async def run() -> None:
        waits, over = asyncio.Event(), asyncio.Event()

        async def pause(_: float) -> None:
            waits.set()
            await over.wait()

        taken = Guests(refuse(SignInRefused("unknown")), lambda user: None, SignInTries(lambda: 0.0), pause)
        failed = asyncio.create_task(taken.sign_in(desk(), "10.0.0.9", "x"))
        await waits.wait()
        over.set()
        with pytest.raises(SignInRefused, match="unknown"):
            await taken.sign_in(desk(), "10.0.0.10", "x")
        with pytest.raises(SignInRefused, match="unknown"):
            await failed

    asyncio.run(run())
