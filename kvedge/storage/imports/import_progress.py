"""How far an import is: bytes of what is sent or written, as `N.NN%`.

Written by the thread that works, read by the progress server's. Touches nothing.
"""

from __future__ import annotations

from typing import Final

_NEARLY: Final = 99.99


class ImportProgress:
    """One number; a total of 0 means that nobody knows it yet."""

    def __init__(self) -> None:
        self._done = 0
        self._total = 0
        self._complete = False

    def expect(self, total: int) -> None:
        """How many bytes there will be."""
        self._total = total

    def reach(self, done: int) -> None:
        """So many bytes are done; it may go back when the work begins anew."""
        self._done = done

    def complete(self) -> None:
        """All is done and on disk."""
        self._complete = True

    def text(self) -> str:
        """`N.NN%`; 100 % only once it is complete."""
        if self._complete:
            return "100.00%"
        if not self._total:
            return "0.00%"
        return f"{min(_NEARLY, 100 * self._done / self._total):.2f}%"
