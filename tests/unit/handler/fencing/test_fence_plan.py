"""When a node ends its guests, and what it promises."""

from __future__ import annotations

import pytest

from kvedge.handler.fencing.fence_plan import (
    Order,
    Promise,
    after_boot,
    choose_promised,
    narrow,
    next_lease,
    plan_look,
    refuse_start,
    widen,
)
from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.resources.node_loss.node_lease import MOST_PROMISED, NodeFence

TERMS = FenceTerms()
PROMISE = Promise("boot", 100.0, TERMS, {"a": "pod-a"})


@pytest.mark.parametrize(
    ("promise", "now", "order"),
    [
        pytest.param(Promise(), 1e9, Order.REST, id="nothing is promised"),
        pytest.param(PROMISE, 140.0, Order.FEED, id="just renewed enough"),
        pytest.param(PROMISE, 140.1, Order.KILL, id="silent for too long"),
        pytest.param(Promise("boot", 100.0, TERMS, {"a": ""}, frozenset({"a"})), 100.0, Order.KILL, id="fenced"),
        pytest.param(Promise("boot", 100.0, TERMS, {}, frozenset({"a"})), 1e9, Order.REST, id="fenced and clean"),
    ],
)
def test_what_a_look_comes_to(promise: Promise, now: float, order: Order) -> None:
    assert plan_look(promise, now) is order


def test_nothing_promised_begins_while_the_api_is_lost() -> None:
    assert refuse_start(PROMISE, "a", 120.0) == ""
    assert "cannot reach the API server" in refuse_start(PROMISE, "a", 150.0)
    # A guest whose VM says wait goes on, and starts.
    assert refuse_start(PROMISE, "b", 150.0) == ""


def test_what_was_called_gone_never_begins_here() -> None:
    fenced = Promise("boot", 100.0, TERMS, {}, frozenset({"a"}))
    assert "has been fenced" in refuse_start(fenced, "a", 100.0)


def test_a_promise_is_in_the_record_before_the_lease_says_it_and_after_it_says_it_no_more() -> None:
    wide = widen(PROMISE, {"b": "pod-b"}, FenceTerms(silence=90))
    assert wide.guests == {"a": "pod-a", "b": "pod-b"}
    # Terms stay as they were promised.
    assert wide.terms == TERMS
    kept = narrow(wide, NodeFence("n", promised=frozenset({"b"})))
    assert kept.guests == {"b": "pod-b"}
    assert narrow(kept, NodeFence("n")).terms is None


def test_a_lease_has_room_for_so_many() -> None:
    wanted = {f"{number:05}": "" for number in range(MOST_PROMISED + 5)}
    assert len(choose_promised(wanted, frozenset())) == MOST_PROMISED
    assert "00000" not in choose_promised(wanted, frozenset({"00000"}))


def test_a_word_of_guests_that_are_gone_stays_while_the_api_has_them_here() -> None:
    lease = NodeFence("n", "boot", "", TERMS, frozenset(), frozenset({"a", "left"}))
    after = next_lease(lease, frozenset({"b"}), frozenset({"a", "b"}), "timer")
    assert (after.promised, after.gone, after.watchdog) == (frozenset({"b"}), frozenset({"a"}), "timer")


def test_what_an_earlier_boot_promised_is_gone() -> None:
    lease = NodeFence("n", "one", "timer", TERMS, frozenset({"a"}))
    assert after_boot(lease, "one") == lease
    assert after_boot(lease, "two") == NodeFence("n", "two", "", TERMS, frozenset(), frozenset({"a"}))
