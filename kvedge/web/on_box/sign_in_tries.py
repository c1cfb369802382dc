"""How often an address may try to sign in: wrong tokens are not guessed, and must not fill the API server.

Used by `console_app` in its event loop; the clock is handed in. Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from kvedge.web.sign_in import SignInRefused

TRIES: Final = 10
SECONDS: Final = 60.0
# More addresses than these forget the one that tried longest ago.
_ADDRESSES: Final = 1024


class SignInTries:
    """Failures of the last minute, by address."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raises SignInRefused when this address has failed too often."""
        now = self._clock()
        recent = [moment for moment in self._failures.get(address, ()) if now - moment < SECONDS]
        if len(recent) >= TRIES:
            raise SignInRefused("too many tries from your address: wait a minute")

    def note_failure(self, address: str) -> None:
        """One has failed."""
        now = self._clock()
        recent = [moment for moment in self._failures.pop(address, ()) if now - moment < SECONDS]
        self._failures[address] = [*recent, now][-TRIES:]
        while len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
