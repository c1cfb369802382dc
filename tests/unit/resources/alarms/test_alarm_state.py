# Tests: kvedge/resources/alarms/alarm_record.py, kvedge/resources/alarms/alarm_names.py
"""Alarms are raised after a while, cleared after a while, and never told twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kvedge.resources.alarms.alarm_record import AlarmRecord, make_config, read_record
from kvedge.resources.alarms.alarm_state import (
    LONGEST_MESSAGE,
    MOST_ALARMS,
    Alarm,
    Sighting,
    State,
    Target,
    Turn,
    next_turn,
)
from kvedge.resources.types.core import ConfigMap

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NODE = Target("v1", "Node", "", "edge-1", "u1", "/var")


class Watch:
    """Alarms over a time that the test says."""

    def __init__(self, *receivers: str) -> None:
        self.receivers = receivers
        self.kept: tuple[Alarm, ...] = ()
        self.now = NOON

    def see(self, level: float | None, after: float = 0, rule: str = "HostDiskFilling", target: Target = NODE) -> Turn:
        return self.see_all([Sighting(rule, target, level, f"{level} %")], after)

    def see_all(self, seen: list[Sighting], after: float = 0) -> Turn:
        self.now += timedelta(seconds=after)
        # As a restart would find it.
        turn = next_turn(restart(self.kept), seen, self.receivers, self.now)
        self.kept = turn.alarms
        return turn

    def tell(self, receiver: str) -> None:
        self.kept = tuple(
            msgspec.structs.replace(each, told={**each.told, receiver: str(each.state)}) for each in self.kept
        )


def restart(alarms: tuple[Alarm, ...]) -> tuple[Alarm, ...]:
    config = make_config(AlarmRecord(alarms, frozenset({"agent/u1"})))
    found = read_record(config)
    assert found.memory == {"agent/u1"}
    return tuple(found.alarms)


def names(alarms: tuple[Alarm, ...]) -> list[str]:
    return [each.rule for each in alarms]


def test_an_alarm_is_raised_once_its_time_is_over_also_across_restarts() -> None:
    watch = Watch()
    assert watch.see(86).raised == ()
    assert [each.state for each in watch.kept] == [State.PENDING]
    assert watch.see(86, after=590).raised == ()
    assert names(watch.see(87, after=10).raised) == ["HostDiskFilling"]
    assert watch.kept[0].message == "87 %"
    assert watch.see(87, after=60).raised == ()


def test_what_is_well_again_before_its_time_was_nothing() -> None:
    watch = Watch()
    watch.see(86)
    watch.see(84, after=300)
    assert watch.kept[0].state == State.PENDING
    assert watch.see(79, after=10).alarms == ()
    watch.see(86, after=10)
    assert watch.see(86, after=595).raised == ()


def test_between_the_two_bounds_an_alarm_stays() -> None:
    watch = Watch()
    watch.see(90)
    watch.see(90, after=600)
    assert watch.see(82, after=3600).resolved == ()
    watch.see(80, after=1)
    assert watch.see(82, after=299).resolved == ()
    assert watch.kept[0].well_since == ""
    watch.see(80, after=1)
    assert watch.see(80, after=299).resolved == ()
    assert names(watch.see(80, after=1).resolved) == ["HostDiskFilling"]
    assert watch.kept == ()


def test_what_nobody_can_tell_changes_nothing() -> None:
    watch = Watch()
    watch.see(96, rule="HostDiskFull")
    assert names(watch.kept) == ["HostDiskFull"]
    assert watch.see(None, after=9999, rule="HostDiskFull").resolved == ()
    assert watch.kept[0].state == State.FIRING
    assert Watch().see(None).alarms == ()


@pytest.mark.parametrize(
    "seen", [[], [Sighting("HostDiskFull", NODE._replace(uid="another"), 10)]], ids=["gone", "made anew"]
)
def test_with_its_object_an_alarm_is_over(seen: list[Sighting]) -> None:
    watch = Watch()
    watch.see(96, rule="HostDiskFull")
    assert names(watch.see_all(seen, after=1).resolved) == ["HostDiskFull"]
    assert watch.kept == ()


def test_the_same_object_made_anew_and_bad_again_is_a_new_alarm() -> None:
    watch = Watch()
    watch.see(96, rule="HostDiskFull")
    watch.see(96, after=5, rule="HostDiskFull", target=NODE._replace(uid="another"))
    assert [(each.uid, each.state) for each in watch.kept] == [("another", State.FIRING)]


def test_an_end_is_kept_until_all_have_heard_of_it_who_heard_of_the_beginning() -> None:
    watch = Watch("hook", "mail")
    watch.see(96, rule="HostDiskFull")
    assert [watch.kept[0].is_news_for(each) for each in watch.receivers] == [True, True]
    watch.tell("hook")
    assert [watch.kept[0].is_news_for(each) for each in watch.receivers] == [False, True]
    assert watch.see(96, after=20, rule="HostDiskFull").raised == ()
    assert not watch.kept[0].is_news_for("hook")
    watch.see_all([], after=1)
    # Nobody has to hear of the end of what he never heard of.
    assert [watch.kept[0].is_news_for(each) for each in watch.receivers] == [True, False]
    watch.tell("hook")
    assert watch.see_all([], after=1).alarms == ()


def test_an_end_that_nobody_takes_is_dropped_after_a_week() -> None:
    watch = Watch("hook")
    watch.see(96, rule="HostDiskFull")
    watch.tell("hook")
    watch.see_all([], after=1)
    assert watch.see_all([], after=7 * 86400 - 1).alarms != ()
    assert watch.see_all([], after=2).alarms == ()


def test_an_alarm_that_comes_back_before_its_end_was_told_is_not_told_again() -> None:
    watch = Watch("hook")
    watch.see(96, rule="HostDiskFull")
    watch.tell("hook")
    watch.see_all([], after=1)
    turn = watch.see(96, after=1, rule="HostDiskFull")
    assert names(turn.raised) == ["HostDiskFull"]
    assert not watch.kept[0].is_news_for("hook")


def test_there_are_so_many_alarms_and_no_more_and_the_worst_are_kept() -> None:
    watch = Watch()
    light = [Sighting("BackupMissed", Target("v1", "BackupSchedule", "a", f"s{i:04}"), 1) for i in range(MOST_ALARMS)]
    turn = watch.see_all(light[: MOST_ALARMS - 1])
    assert (len(turn.alarms), turn.left_out) == (MOST_ALARMS - 1, 0)
    turn = watch.see_all([*light, Sighting("HostDiskFull", NODE, 99), Sighting("NodeLost", NODE, 1)])
    assert (len(turn.alarms), turn.left_out) == (MOST_ALARMS, 2)
    assert names(turn.raised) == ["HostDiskFull"]


def test_a_long_message_is_cut_and_a_new_one_is_written_now_and_then() -> None:
    watch = Watch()
    watch.see_all([Sighting("NodeLost", NODE, 1, "x" * 9999)])
    assert len(watch.kept[0].message) == LONGEST_MESSAGE
    watch.see(96, rule="HostDiskFull")
    assert watch.kept[0].message == "96 %"
    watch.see(97, after=60, rule="HostDiskFull")
    assert watch.kept[0].message == "96 %"
    watch.see(98, after=600, rule="HostDiskFull")
    assert watch.kept[0].message == "98 %"


def test_a_clock_that_is_set_back_raises_nothing_early_and_breaks_nothing() -> None:
    watch = Watch()
    watch.see(90)
    watch.see(90, after=-7200)
    assert watch.kept[0].state == State.PENDING
    assert names(watch.see(90, after=7800).raised) == ["HostDiskFilling"]


@pytest.mark.parametrize("text", ["no JSON", '{"a":1}', '[{"rule":1}]', "[" * 100_000, "x" * 1_000_000])
def test_a_record_that_cannot_be_read_counts_as_empty(text: str) -> None:
    assert read_record(ConfigMap(data={"alarms.json": text})) == AlarmRecord()


def test_alarms_of_rules_that_a_later_release_has_are_left_out() -> None:
    alarm = Watch().see(96, rule="HostDiskFull").alarms[0]
    kept = make_config(AlarmRecord([msgspec.structs.replace(alarm, rule="Later"), alarm]))
    assert [each.rule for each in read_record(kept).alarms] == ["HostDiskFull"]


def test_the_worst_and_then_the_newest_are_shown_first() -> None:
    watch = Watch()
    watch.see_all([Sighting("BackupMissed", NODE, 1), Sighting("HostDiskFull", NODE, 99)])
    watch.see_all(
        [Sighting("BackupMissed", NODE, 1), Sighting("HostDiskFull", NODE, 99), Sighting("KvmLost", NODE, 1)], 9
    )
    assert [each.rule for each in AlarmRecord(watch.kept).firing] == ["KvmLost", "HostDiskFull", "BackupMissed"]
