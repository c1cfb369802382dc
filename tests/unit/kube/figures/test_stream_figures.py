"""Streams are counted while they are open, and guests that nobody looks at are remembered up to a bound."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kvedge.kube.figures.stream_figures import MOST_GUESTS, StreamFigures
from kvedge.resources.usage.role_stats import StreamStats


def told(name: str = "web", uid: str = "1", ended: int = 0, **kinds: int) -> StreamStats:
    return StreamStats(namespace="shop", name=name, uid=uid, open=kinds, ended=ended)


def test_open_streams_are_told_by_kind_and_the_last_end_stays() -> None:
    now = [100.7]
    figures = StreamFigures(lambda: now[0])
    with figures.count("vnc", "shop", "web", "1"):
        with figures.count("console", "shop", "web", "1"), figures.count("vnc", "shop", "web", "1"):
            assert figures.tell() == [told(vnc=2, console=1)]
        assert figures.tell() == [told(vnc=1, console=0, ended=100)]
        now[0] = 200.0
    assert figures.tell() == [told(vnc=0, console=0, ended=200)]


def test_a_stream_that_fails_is_closed_and_another_guest_of_the_name_begins_anew() -> None:
    figures = StreamFigures(lambda: 5.0)
    with pytest.raises(OSError, match="broken"), figures.count("vnc", "shop", "web", "1"):
        raise OSError("broken")
    with figures.count("console", "shop", "web", "2"):
        assert figures.tell() == [told(uid="2", console=1), told(uid="1", vnc=0, ended=5)]


def test_what_is_told_is_bounded_and_open_streams_come_first() -> None:
    figures = StreamFigures(lambda: 5.0)
    with figures.count("vnc", "shop", "looked-at", "1"):
        for number in range(2 * MOST_GUESTS):
            with figures.count("console", "shop", f"vm-{number}", "1"):
                pass
        found = figures.tell()
        assert len(found) == MOST_GUESTS
        assert [each.name for each in found[:2]] == ["looked-at", f"vm-{2 * MOST_GUESTS - 1}"]


def test_streams_of_more_guests_than_are_told_of_are_counted_all_the_same() -> None:
    figures = StreamFigures(lambda: 5.0)
    with ExitStack() as all_of_them:
        for number in range(MOST_GUESTS + 1):
            all_of_them.enter_context(figures.count("vnc", "shop", f"vm-{number}", "1"))
        assert len(figures.tell()) == MOST_GUESTS
    last = figures.tell()
    assert len(last) == MOST_GUESTS
    assert all(each.open == {"vnc": 0} for each in last)
