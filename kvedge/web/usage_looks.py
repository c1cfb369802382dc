"""What guests use, for the graphs of all pages of one user: one look at the metrics for all that ask at the same time.

Made by `console_server`, called by `page_calls` in threads of their own. Nobody who asks costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from kvedge.client.usage.guest_usage import GuestUse, Look, compare
from kvedge.kube.errors import KubeError
from kvedge.resources.codec import JsonObject

# A look is a call of each node: pages that ask sooner get the last one.
_KEPT_SECONDS: Final = 2.0
# A rate over a longer time is no point of a graph.
_LONGEST_SECONDS: Final = 60.0


class UsageLooks:
    """The last two looks."""

    def __init__(self, look: Callable[[], Look], clock: Callable[[], float]) -> None:
        """`clock` is that of the looks' moments."""
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._last: Look | None = None
        self._uses: dict[tuple[str, str], GuestUse] = {}
        self._failure: tuple[KubeError, float] | None = None

    def use_of(self, namespace: str, name: str) -> JsonObject:
        """What one guest uses, and at which moment, in seconds; rates come with the second look.

        Raises:
            KubeError: when the server refuses, or does not answer.
        """
        with self._lock:
            last = self._last
            if last is None or self._clock() - last.moment >= _KEPT_SECONDS:
                last = self._look_again()
            found = self._uses.get((namespace, name))
            return {"moment": last.moment, "use": found.document() if found is not None else None}

    def _look_again(self) -> Look:
        if self._failure is not None and self._clock() - self._failure[1] < _KEPT_SECONDS:
            # A server that takes long to fail would be asked by one waiting page after the other.
            raise self._failure[0]
        try:
            found = self._look()
        except KubeError as error:
            self._failure = error, self._clock()
            raise
        self._failure = None
        before, self._last = self._last, found
        if before is None or found.moment - before.moment > _LONGEST_SECONDS:
            before = found
        self._uses = {(use.namespace, use.name): use for use in compare(before, found)}
        return found
