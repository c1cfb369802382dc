"""A service of one box that is made when it starts, as it needs what the ones before it have written.

Used by `standalone_services`: kubeconfigs, for example, are written once the embedded API serves.
"""

from __future__ import annotations

from collections.abc import Callable

from kvedge.runtime.services import Service, Telling


class LaterService:
    """Makes a service, and then stands for it."""

    def __init__(self, name: str, make: Callable[[], Service]) -> None:
        self.name = name
        self._make = make
        self._made: Service | None = None
        # The same one, if it has something to tell: to find that out costs much, and it is asked for each second.
        self._telling: Telling | None = None

    def start(self) -> None:
        """Make it and start it."""
        self._made = made = self._make()
        self._telling = made if isinstance(made, Telling) else None
        made.start()

    def stop(self) -> None:
        """Stop it, when it was made."""
        if self._made is not None:
            self._made.stop()

    def failure(self) -> str | None:
        """Its own."""
        return None if self._made is None else self._made.failure()

    def summary(self) -> str:
        """Its own, if it has something to tell."""
        return "" if self._telling is None else self._telling.summary()
