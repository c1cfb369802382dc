"""Whether a loop's failure is worth a line in the log: that nobody knows us stays so until somebody acts.

Used by loops that try again every few seconds, each with one of its own. Touches nothing.
"""

from __future__ import annotations

from kvedge.kube.errors import Unauthenticated


class ToldRefusals:
    """Remembers what was told last; used by one thread."""

    def __init__(self) -> None:
        self._last = ""

    def is_news(self, error: Exception) -> bool:
        """Whether to tell of this failure; outages are told each time, as each try is another one."""
        text = str(error)
        is_known = isinstance(error, Unauthenticated) and text == self._last
        self._last = text
        return not is_known

    def clear(self) -> None:
        """It works again: the next failure is news."""
        self._last = ""
