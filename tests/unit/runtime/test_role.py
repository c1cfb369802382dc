"""Parts of a role: the order of need, the way back, and the name of the first failure."""

from __future__ import annotations

import pytest

from kvedge.runtime.role import Failure, Part, Parts, PartsError, order_of_need, part, unfailing


class Thing:
    """A part that notes its life in a shared list."""

    def __init__(self, name: str, life: list[str]) -> None:
        self.name, self.life = name, life
        self.refuses = self.clings = False
        self.fails: str | None = None

    def start(self) -> None:
        self.life.append(f"+{self.name}")
        if self.refuses:
            raise LookupError(self.name)

    def stop(self) -> None:
        self.life.append(f"-{self.name}")
        if self.clings:
            raise OSError("it does not let go")

    def failure(self) -> str | None:
        return self.fails


@pytest.fixture
def life() -> list[str]:
    return []


@pytest.fixture
def three(life: list[str]) -> list[Thing]:
    return [Thing(name, life) for name in ("queue", "informer", "client")]


@pytest.fixture
def parts(three: list[Thing]) -> Parts:
    """Listed the other way round than they need each other."""
    queue, informer, client = three
    return Parts([part("queue", queue, "informer"), part("informer", informer, "client"), part("client", client)])


def test_parts_start_in_the_order_of_need_and_stop_in_reverse(parts: Parts, life: list[str]) -> None:
    parts.start()
    parts.stop()
    assert life == ["+client", "+informer", "+queue", "-queue", "-informer", "-client"]


def test_parts_that_need_nothing_keep_the_order_in_which_they_are_listed() -> None:
    listed = [Part("a"), Part("b", needs=("d",)), Part("c"), Part("d"), Part("e")]
    assert [each.name for each in order_of_need(listed)] == ["a", "c", "d", "b", "e"]


def test_a_part_that_cannot_start_stops_itself_and_those_that_have_started(
    parts: Parts, three: list[Thing], life: list[str]
) -> None:
    three[1].refuses = True
    with pytest.raises(LookupError, match="informer"):
        parts.start()
    assert life == ["+client", "+informer", "-informer", "-client"]
    parts.stop()
    assert len(life) == 4, "nothing is left to stop"


def test_what_can_start_later_starts_as_a_whole_again(parts: Parts, three: list[Thing], life: list[str]) -> None:
    three[0].refuses = True
    with pytest.raises(LookupError):
        parts.start()
    three[0].refuses = False
    life.clear()
    parts.start()
    assert life == ["+client", "+informer", "+queue"]


def test_a_part_that_does_not_let_go_does_not_keep_the_others_from_stopping(
    parts: Parts, three: list[Thing], life: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    three[1].clings = True
    parts.start()
    parts.stop()
    assert life[3:] == ["-queue", "-informer", "-client"]
    assert "did not stop cleanly" in caplog.text


def test_the_first_failure_names_its_part(parts: Parts, three: list[Thing]) -> None:
    queue, informer, _ = three
    parts.start()
    assert parts.first_failure() is parts.failure() is None
    queue.fails, informer.fails = "a pass is stuck", "the watch ended"
    assert parts.first_failure() == Failure("informer", "the watch ended")
    assert parts.failure() == "informer: the watch ended"


def test_parts_that_do_not_run_have_no_failures(parts: Parts, three: list[Thing]) -> None:
    three[0].fails = "not begun"
    assert parts.failure() is None
    parts.start()
    parts.stop()
    assert parts.failure() is None


def test_no_further_part_starts_once_it_is_over(parts: Parts, life: list[str]) -> None:
    parts.start(lambda: "+informer" in life)
    assert life == ["+client", "+informer"]
    parts.stop()
    assert life[2:] == ["-informer", "-client"]


def test_parts_that_are_made_of_started_ones_start_later_and_stop_first(life: list[str]) -> None:
    parts = Parts([part("port", Thing("port", life))])
    parts.start()
    parts.start_more([part("server", Thing("server", life), "port")])
    parts.stop()
    assert life == ["+port", "+server", "-server", "-port"]


def test_later_parts_that_cannot_start_stop_the_earlier_ones_too(life: list[str]) -> None:
    server = Thing("server", life)
    server.refuses = True
    parts = Parts([part("port", Thing("port", life))])
    parts.start()
    with pytest.raises(PartsError, match="two parts have one name: port"):
        parts.start_more([part("port", server)])
    with pytest.raises(LookupError):
        parts.start_more([part("server", server)])
    assert life == ["+port", "+server", "-server", "-port"]


def test_a_part_without_functions_of_its_own_is_a_name_to_need(life: list[str]) -> None:
    settings, events = Part("settings"), unfailing("events", Thing("events", life), "settings")
    parts = Parts([events, settings])
    parts.start()
    assert (life, parts.failure()) == (["+events"], None)


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ([Part("a"), Part("a")], "two parts have one name: a"),
        ([Part("a", needs=("b",))], "a needs b, which is not among the parts"),
        ([Part("a", needs=("b",)), Part("b", needs=("a",)), Part("c")], "these parts need each other: a, b"),
    ],
    ids=["a name twice", "a need that is not there", "two that need each other"],
)
def test_parts_without_an_order_are_refused(listed: list[Part], why: str) -> None:
    with pytest.raises(PartsError, match=why):
        Parts(listed)
