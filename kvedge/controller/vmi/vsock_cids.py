"""The numbers (CIDs) by which guests are reached over vsock: each guest of the cluster has one of its own.

Kept by the VMI's loop, in memory: what was written into a VMI stands there, and is looked up.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Final

# The hypervisor, the loopback and the host have those below; the last one stands for any.
FIRST: Final = 3
LAST: Final = 2**32 - 2


class VsockCids:
    """Gives out numbers; every method may be called from any thread."""

    def __init__(self, is_used: Callable[[int], bool], choose: Callable[[int], int] = secrets.randbelow) -> None:
        """`is_used` says whether some VMI has a number; `choose(n)` is a number below n."""
        self._is_used = is_used
        self._choose = choose
        self._given: dict[str, int] = {}
        self._lock = threading.Lock()

    def give(self, uid: str) -> int:
        """A number that no other guest has; the same one for a VMI until it is forgotten.

        A VMI that was written a moment ago may not be seen yet: what was given out counts as well.
        """
        with self._lock:
            if uid not in self._given:
                taken = set(self._given.values())
                number = FIRST + self._choose(LAST - FIRST + 1)
                while number in taken or self._is_used(number):
                    number = number + 1 if number < LAST else FIRST
                self._given[uid] = number
            return self._given[uid]

    def forget(self, uid: str) -> None:
        """The VMI is gone."""
        with self._lock:
            self._given.pop(uid, None)
