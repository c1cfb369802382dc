"""What guests use, from two looks at the metrics."""

from __future__ import annotations

from typing import Any, cast

from kvedge.client.session import Session
from kvedge.client.usage.guest_usage import Figures, Look, compare, look, make_cells, order
from tests.unit.client.usage.played_metrics import PlayedMetrics

WEB, DB = ("shop", "web"), ("shop", "db")


def a_look(moment: float, **sums: float) -> Look:
    return Look(moment, {WEB: Figures("n1", answers=True, sums=dict(sums))})


def test_the_metrics_of_a_server_become_a_look() -> None:
    played = PlayedMetrics()
    found = look(cast("Session", played.session), lambda: 7.0)
    assert found.moment == 7.0
    assert found.silent_nodes == ("n2",)
    assert found.guests[WEB].node == "n1"
    assert found.guests[WEB].answers
    # Of two disks.
    assert found.guests[WEB].sums["read"] == 300.0
    assert not found.guests[DB].answers


def test_rates_are_of_the_time_between_two_looks() -> None:
    (use,) = compare(a_look(1.0, cpu=10.0, read=1000.0), a_look(3.0, cpu=11.0, read=5096.0, resident=2048.0))
    assert (use.cpus, use.read, use.resident) == (0.5, 2048.0, 2048.0)
    assert (use.sent, use.memory) == (None, None)


def test_a_guest_that_was_started_anew_has_no_rate_and_one_that_came_has_none_yet() -> None:
    (use,) = compare(a_look(1.0, cpu=10.0), a_look(2.0, cpu=1.0))
    assert use.cpus is None
    (use,) = compare(Look(1.0, {}), a_look(2.0, cpu=1.0))
    assert use.cpus is None


def test_a_guests_memory_is_what_it_says_it_needs_and_else_what_it_has() -> None:
    (use,) = compare(a_look(1.0), a_look(2.0, memory=100.0, available=90.0, usable=60.0))
    assert use.memory == 30.0
    (use,) = compare(a_look(1.0), a_look(2.0, memory=100.0))
    assert use.memory == 100.0


def test_who_uses_most_comes_first_and_names_stay_in_order() -> None:
    before = Look(0.0, {WEB: Figures(sums={"cpu": 0.0}), DB: Figures(sums={"cpu": 0.0})})
    after = Look(1.0, {WEB: Figures(sums={"cpu": 2.0}), DB: Figures(sums={"cpu": 1.0, "resident": 9.0})})
    uses = compare(before, after)
    names: dict[str, Any] = {by: [use.name for use in order(uses, by)] for by in ("name", "cpu", "memory", "disk")}
    assert names == {"name": ["db", "web"], "cpu": ["web", "db"], "memory": ["db", "web"], "disk": ["db", "web"]}


def test_the_table_shows_hundredths_of_a_cpu_sizes_and_who_does_not_answer() -> None:
    after = Look(2.0, {WEB: Figures("n1", sums={"cpu": 1.5, "resident": 3.0 * (1 << 20), "sent": 10.0})})
    uses = compare(Look(1.0, {WEB: Figures(sums={"cpu": 0.0, "sent": 0.0})}), after)
    heads, row = make_cells(uses, with_namespace=True)
    assert heads[:4] == ["NAMESPACE", "NAME", "NODE", "CPU"]
    assert row == ["shop", "web (does not answer)", "n1", "150 %", "-", "3Mi", "-", "-", "-", "10"]
    assert uses[0].document()["sentBytesPerSecond"] == 10
