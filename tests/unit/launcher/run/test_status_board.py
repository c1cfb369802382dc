"""The board that everybody reads the domain's status from."""

from __future__ import annotations

import threading

from kvedge.launcher.run.status_board import StatusBoard
from kvedge.rpc import launcher_pb2 as m
from tests.support.waiting import wait_until


def status(state: m.DomainState) -> m.DomainStatus:
    return m.DomainStatus(state=state)


def wanted() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def test_the_sequence_grows_with_changes_only() -> None:
    board = StatusBoard()
    first = board.publish(status(m.DOMAIN_STATE_STARTING)).sequence
    assert board.publish(status(m.DOMAIN_STATE_STARTING)).sequence == first
    assert board.publish(status(m.DOMAIN_STATE_RUNNING)).sequence == first + 1


def test_a_watcher_gets_the_present_status_at_once() -> None:
    board = StatusBoard()
    board.publish(status(m.DOMAIN_STATE_RUNNING))
    assert next(board.watch(wanted())).state == m.DOMAIN_STATE_RUNNING


def test_a_slow_watcher_misses_what_was_in_between_and_never_the_latest() -> None:
    board = StatusBoard()
    watch = board.watch(wanted())
    next(watch)
    for state in (m.DOMAIN_STATE_STARTING, m.DOMAIN_STATE_RUNNING, m.DOMAIN_STATE_SHUTOFF):
        board.publish(status(state))
    assert next(watch).state == m.DOMAIN_STATE_SHUTOFF


def test_a_closed_board_still_delivers_the_last_word() -> None:
    board = StatusBoard()
    watch = board.watch(wanted())
    next(watch)
    board.publish(status(m.DOMAIN_STATE_SHUTOFF))
    board.close()
    assert [entry.state for entry in watch] == [m.DOMAIN_STATE_SHUTOFF]


def test_a_watcher_that_left_is_let_go() -> None:
    board = StatusBoard()
    event = wanted()
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.extend(entry.state for entry in board.watch(event)), name="watcher")
    thread.start()
    wait_until(lambda: seen, "the first status")
    event.clear()
    board.wake()
    thread.join(10)
    assert not thread.is_alive()
    assert seen == [m.DOMAIN_STATE_ABSENT]
