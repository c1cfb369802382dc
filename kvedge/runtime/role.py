"""The skeleton of whatever is made of parts: they start in the order of need, and stop in reverse.

Each role (controller, api, handler, node agent) is built on it, and so is the list of services of a whole process
(`services.py`). Touches nothing by itself: a part brings the functions that start it, stop it and tell its failure.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol

from msgspec import Struct

log = logging.getLogger(__name__)


class Startable(Protocol):
    """A part as a class of its own."""

    def start(self) -> object:
        """Return when it works; raise when it cannot."""

    def stop(self) -> object:
        """Return when nothing of it runs any more; never raises for one that was not started."""


class Failing(Startable, Protocol):
    """A part that may fail while it works."""

    def failure(self) -> str | None:
        """Why it no longer works, or None while it does."""


def _do_nothing() -> None:
    return None


class Part(Struct, frozen=True):
    """Something that starts, works until it is stopped, and may fail; `needs` names what must have started before.

    `stop` is also called after a `start` that raised.
    """

    name: str
    start: Callable[[], object] = _do_nothing
    stop: Callable[[], object] = _do_nothing
    failure: Callable[[], str | None] = _do_nothing
    needs: tuple[str, ...] = ()


def part(name: str, of: Failing, *needs: str) -> Part:
    """An object with `start`, `stop` and `failure` as a part."""
    return Part(name, of.start, of.stop, of.failure, needs)


def unfailing(name: str, of: Startable, *needs: str) -> Part:
    """An object with `start` and `stop` as a part that cannot fail once it works."""
    return Part(name, of.start, of.stop, needs=needs)


class PartsError(Exception):
    """Parts cannot be put into an order: a mistake in their list."""


class Failure(NamedTuple):
    """The name of a part that no longer works, and why."""

    part: str
    detail: str


class Parts:
    """The parts of one role, by its names unique; used by one thread, except that any may ask for failures."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        """Nothing is started yet.

        Raises:
            PartsError: when a need is not among them, two have one name, or two need each other.
        """
        self._order = order_of_need(parts)
        self._started: tuple[Part, ...] = ()

    def start(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Start all in the order of need; when one cannot start, those before it are stopped.

        Once `is_over()`, no further one is started.

        Raises:
            Exception: what the first part raises that cannot start.
        """
        self._start(self._order, is_over)

    def start_more(self, parts: Iterable[Part]) -> None:
        """Start further parts, which are made of what has started; all are stopped when one cannot start.

        Raises:
            PartsError: when they have no order.
            Exception: what the first part raises that cannot start.
        """
        self._start(order_of_need(parts, known=[each.name for each in self._started]), lambda: False)

    def _start(self, order: Iterable[Part], is_over: Callable[[], bool]) -> None:
        try:
            for each in order:
                if is_over():
                    return
                # Before it starts: a part that raises has begun something, which is to be ended, too.
                self._started += (each,)
                each.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop what was started, the last first; a part that fails to stop does not keep the others from it."""
        while self._started:
            each, self._started = self._started[-1], self._started[:-1]
            try:
                each.stop()
            except Exception:
                # Everything must come down whatever one part does; the log has the cause.
                log.exception("did not stop cleanly", extra={"facts": {"service": each.name}})

    def first_failure(self) -> Failure | None:
        """The first part, in the order of start, that no longer works."""
        for each in self._started:
            detail = each.failure()
            if detail is not None:
                return Failure(each.name, detail)
        return None

    def failure(self) -> str | None:
        """The same in one line."""
        found = self.first_failure()
        return None if found is None else f"{found.part}: {found.detail}"


def order_of_need(parts: Iterable[Part], known: Collection[str] = ()) -> tuple[Part, ...]:
    """The parts in the order in which they are listed, each after those that it needs; the `known` have started.

    Raises:
        PartsError: when there is no such order.
    """
    listed = list(parts)
    waiting = {each.name: each for each in listed}
    if twice := [name for name, count in Counter([*known, *(each.name for each in listed)]).items() if count > 1]:
        raise PartsError(f"two parts have one name: {', '.join(twice)}")
    for each in listed:
        if missing := [need for need in each.needs if need not in waiting and need not in known]:
            raise PartsError(f"{each.name} needs {', '.join(missing)}, which is not among the parts")
    ordered: list[Part] = []
    while waiting:
        ready = next((each for each in waiting.values() if not any(need in waiting for need in each.needs)), None)
        if ready is None:
            raise PartsError(f"these parts need each other: {', '.join(waiting)}")
        ordered.append(waiting.pop(ready.name))
    return tuple(ordered)
