# Tests: kvedge/web/on_box/sign_in_tries.py
"""Wrong tokens are counted by address, in bounded memory."""

from __future__ import annotations

import pytest

from kvedge.web.on_box import sign_in_tries
from kvedge.web.on_box.sign_in_tries import SECONDS, TRIES, SignInTries
from kvedge.web.sign_in import SignInRefused


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_address_that_fails_waits_a_minute_and_no_other_does() -> None:
    clock = Clock()
    tries = SignInTries(clock)
    for _ in range(TRIES):
        tries.check("10.0.0.1")
        tries.note_failure("10.0.0.1")
    with pytest.raises(SignInRefused, match="wait a minute"):
        tries.check("10.0.0.1")
    tries.check("10.0.0.2")
    clock.now += SECONDS
    tries.check("10.0.0.1")


def test_a_thousand_addresses_are_remembered_and_the_latest_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_tries, "_ADDRESSES", 2)
    tries = SignInTries(Clock())
    for _ in range(TRIES * 3):
        tries.note_failure("10.0.0.1")
    tries.note_failure("10.0.0.2")
    tries.note_failure("10.0.0.3")
    assert len(tries._failures) == 2
    tries.check("10.0.0.1")
    assert all(len(failures) <= TRIES for failures in tries._failures.values())
