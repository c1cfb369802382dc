"""How many transfers a proxy has under way, in all and of one namespace, and how it refuses one.

Used by the proxies of uploads and of exports. Pure but for the counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class TransferRefused(Exception):
    """The call is refused: the HTTP status and a line of text for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class TransferSlots:
    """Transfers of one kind."""

    def __init__(self, most: int, of_one: int, words: tuple[str, str]) -> None:
        """`words` are what they are called, and how they are to a namespace: downloads, from."""
        self._most = most
        self._of_one = of_one
        self._what, self._to = words
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, namespace: str) -> Iterator[None]:
        """One more, until it ends.

        Raises:
            TransferRefused: 503 when there are too many.
        """
        if self._taken[namespace] >= self._of_one:
            text = f"{self._of_one} {self._what} {self._to} {namespace} are under way; try again later"
            raise TransferRefused(503, text)
        if self._taken.total() >= self._most:
            raise TransferRefused(503, f"{self._most} {self._what} are under way; try again later")
        self._taken[namespace] += 1
        try:
            yield
        finally:
            self._taken[namespace] -= 1
            if not self._taken[namespace]:
                del self._taken[namespace]
