"""How much of the launcher's time its guest's packets get. Pure; used by the responders of DHCP and of IPv6."""

from __future__ import annotations

from typing import Final

# A client needs four packets for a lease; a guest that floods gets no more of the launcher's time than this a second.
PACKETS_PER_SECOND: Final = 50


class PacketBudget:
    """So many packets a second, counted in seconds since the first of them."""

    def __init__(self, per_second: int = PACKETS_PER_SECOND) -> None:
        self._per_second = per_second
        self._since = 0.0
        self._spent = 0

    def spend(self, now: float) -> float:
        """Counts one packet at `now` (seconds); how many seconds to leave the rest of them lying, 0 for none."""
        if now - self._since >= 1:
            self._since, self._spent = now, 0
        self._spent += 1
        return max(0.0, self._since + 1 - now) if self._spent >= self._per_second else 0.0
