"""Whether a viewer is alive, and who may look: decided without a socket or a clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvedge.runtime.serving.stream_core import Liveness, SharedDesk, ViewerDesk


def test_a_silent_viewer_is_pinged_and_then_given_up() -> None:
    alive = Liveness(0.0, ping_seconds=20, dead_seconds=65)
    assert [alive.judge(float(now)) for now in (10, 20, 30, 40, 60, 64, 65)] == [
        "nothing",
        "ping",
        "nothing",
        "ping",
        "ping",
        "nothing",
        "dead",
    ]


def test_a_viewer_that_answers_lives_on() -> None:
    alive = Liveness(0.0, ping_seconds=20, dead_seconds=65)
    for now in range(20, 1000, 20):
        assert alive.judge(float(now)) == "ping"
        alive.note_heard(float(now) + 1)


def test_silence_says_less_while_we_do_not_listen() -> None:
    alive = Liveness(0.0, ping_seconds=20, dead_seconds=65, stuck_seconds=300)
    alive.stop_listening(10.0)
    assert alive.is_deaf
    assert alive.judge(300.0) == "ping"
    alive.listen(301.0)
    assert alive.judge(310.0) == "nothing"
    assert alive.judge(366.0) == "dead"


def test_a_viewer_that_takes_nothing_is_given_up_after_a_longer_time() -> None:
    alive = Liveness(0.0, ping_seconds=20, dead_seconds=65, stuck_seconds=300)
    alive.begin_sending(50.0)
    assert alive.is_sending
    assert alive.judge(349.0) == "ping"
    assert alive.judge(350.0) == "dead"


def test_a_viewer_that_takes_something_after_a_while_is_alive() -> None:
    alive = Liveness(0.0, dead_seconds=65)
    alive.begin_sending(50.0)
    alive.end_sending(64.0)
    assert not alive.is_sending
    assert alive.judge(128.0) == "ping"
    assert alive.judge(129.0) == "dead"


def test_what_the_kernel_takes_at_once_is_no_sign_of_life() -> None:
    alive = Liveness(0.0, dead_seconds=65)
    for now in range(1, 65):
        alive.begin_sending(float(now))
        alive.end_sending(float(now))
    assert alive.judge(65.0) == "dead"


def test_the_next_look_is_never_after_something_is_due() -> None:
    alive = Liveness(0.0, ping_seconds=20, dead_seconds=65)
    now = 0.0
    for _ in range(20):
        now += alive.next_look(now)
        if alive.judge(now) == "dead":
            break
    assert now == 65.0


@given(st.lists(st.tuples(st.sampled_from(["heard", "deaf", "listen", "sending", "sent", "due"]), st.floats(0, 30))))
def test_a_viewer_is_never_dead_right_after_it_was_heard(steps: list[tuple[str, float]]) -> None:
    alive = Liveness(0.0)
    now = 0.0
    for step, seconds in steps:
        now += seconds
        if step == "heard":
            alive.note_heard(now)
            assert alive.judge(now) != "dead"
        elif step == "deaf":
            alive.stop_listening(now)
        elif step == "listen":
            alive.listen(now)
        else:
            alive.judge(now)
        assert alive.next_look(now) >= 0


def test_the_last_who_comes_looks() -> None:
    desk: ViewerDesk[str] = ViewerDesk()
    assert desk.take("console", "first").evicts is None
    assert desk.take("console", "second").evicts == "first"
    assert desk.viewers() == ["second"]


def test_one_who_was_sent_away_does_not_take_the_seat_with_him() -> None:
    desk: ViewerDesk[object] = ViewerDesk()
    first, second = object(), object()
    desk.take("console", first)
    desk.take("console", second)
    desk.leave("console", first)
    assert desk.viewers() == [second]
    desk.leave("console", second)
    assert len(desk) == 0


def test_with_preserve_the_first_stays() -> None:
    desk: ViewerDesk[str] = ViewerDesk()
    desk.take("vnc", "first")
    assert desk.take("vnc", "second", preserve=True).refused
    assert desk.viewers() == ["first"]


def test_streams_do_not_disturb_each_other() -> None:
    desk: ViewerDesk[str] = ViewerDesk()
    desk.take("vnc", "a")
    assert desk.take("console", "b").evicts is None
    assert len(desk) == 2


def test_a_shared_stream_takes_so_many_and_no_more_until_one_leaves() -> None:
    desk: SharedDesk[str] = SharedDesk()
    assert [desk.take("spice", viewer, 2) for viewer in ("a", "b", "c")] == [True, True, False]
    assert (desk.is_full("spice", 2), desk.is_full("other", 2), desk.viewers()) == (True, False, ["a", "b"])
    desk.leave("spice", "c")
    assert len(desk) == 2
    desk.leave("spice", "a")
    assert desk.take("spice", "c", 2)
    assert desk.viewers() == ["b", "c"]


def test_nothing_is_kept_of_a_shared_stream_that_all_have_left() -> None:
    desk: SharedDesk[str] = SharedDesk()
    for number in range(1000):
        assert desk.take(number, "a", 1)
        desk.leave(number, "a")
    assert desk == SharedDesk()
