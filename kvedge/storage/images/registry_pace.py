"""How slow a registry may be: a least rate while its answers are waited for, and a time for the whole download.

Used by the registry client around everything that it waits for. Reads the clock that it is handed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kvedge.storage.image_errors import RegistryError

_REMEDY: Final = "check the network, or import the image: kvedge image import FILE --name NAME"


class PaceLimits(Struct, frozen=True):
    """In each `window` seconds of waiting for an answer at least `window_bytes` come; all of a pull in `total` seconds.

    A registry that sends a byte now and then never runs into a socket's time-out. Half an hour brings 1.8 MB at the
    least rate. What came of a pull that is given up is kept, and the next attempt goes on there.
    """

    window: float = 30.0
    window_bytes: int = 30 << 10
    total: float = 3600.0


class Pace:
    """Watches one pull."""

    def __init__(
        self,
        registry: str,
        limits: PaceLimits,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        peer: str = "",
        remedy: str = _REMEDY,
    ) -> None:
        """`peer` names what is waited for where that is no registry, and `remedy` what to do then."""
        self._peer = peer or f"registry {registry}"
        self._remedy = remedy
        self._limits = limits
        self._monotonic = monotonic
        self._end = monotonic() + limits.total
        self._waited = 0.0
        self._came = 0

    def begin(self) -> None:
        """A request is about to be sent: earlier bytes do not count for its pace."""
        self._waited, self._came = 0.0, 0

    def patience(self) -> float:
        """For how many seconds the next piece may be waited for.

        Raises:
            RegistryError: when the registry is too slow, or the pull has taken too long.
        """
        left = self._end - self._monotonic()
        if left <= 0:
            raise RegistryError(
                f"{self._peer} did not give the whole image within {self._limits.total:.0f} s",
                f"the next attempt goes on from there; or {self._remedy}",
                temporary=True,
            )
        if self._waited >= self._limits.window:
            self._begin_window()
        return max(0.05, min(left, self._limits.window - self._waited))

    def note_bytes(self, count: int, waited: float) -> None:
        """`count` bytes came after `waited` seconds; none came when the time was over."""
        self._came += count
        self._waited += waited

    def _begin_window(self) -> None:
        if self._came < self._limits.window_bytes:
            raise RegistryError(
                f"{self._peer} is too slow: {self._came} bytes in {self._waited:.0f} s",
                self._remedy,
                temporary=True,
            )
        self.begin()
