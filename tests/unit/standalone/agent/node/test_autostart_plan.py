"""VMs that start one after the other when their box has been booted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus
from kvedge.runtime.clock import rfc3339
from kvedge.standalone.agent.node.autostart_plan import NotYet, autostart_turn

BEGAN = datetime(2026, 1, 1, 8, 0, 0, tzinfo=UTC)


def launcher(name: str, order: str = "", delay: str = "", phase: str = "Pending", made: int = 1, since: int = 0) -> Pod:
    """A launcher Pod that was made so many seconds after the start, and runs since then."""
    annotations = {"kvedge.io/autostart-order": order, "kvedge.io/autostart-delay": delay}
    started = ContainerStateRunning(started_at=rfc3339(BEGAN + timedelta(seconds=since)))
    state = ContainerState(running=started)
    running = [ContainerStatus(name="compute", ready=True, restart_count=0, image="", image_id="", state=state)]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            annotations={key: value for key, value in annotations.items() if value},
            creation_timestamp=rfc3339(BEGAN + timedelta(seconds=made)),
        ),
        status=PodStatus(phase=phase, container_statuses=running if phase == "Running" else []),
    )


def turn(pod: Pod, *others: Pod, after: float = 10.0) -> NotYet | None:
    return autostart_turn(pod, [pod, *others], BEGAN, BEGAN + timedelta(seconds=after))


def test_one_without_an_order_waits_for_nobody() -> None:
    assert turn(launcher("web"), launcher("db", order="1"), after=0) is None


def test_the_first_waits_until_it_can_know_that_it_is_the_first() -> None:
    """Also where the controller makes it late: it makes the others then as well."""
    held = turn(launcher("db", order="1", made=0), after=1)
    assert held is not None
    assert held.seconds == pytest.approx(2)
    assert turn(launcher("db", order="1", made=0), after=3) is None
    held = turn(launcher("db", order="1", made=9), after=10)
    assert held is not None
    assert held.seconds == pytest.approx(2)
    assert turn(launcher("db", order="1", made=9), after=12) is None


def test_a_later_one_waits_until_all_earlier_ones_run() -> None:
    web, database, storage = launcher("web", "20"), launcher("db", "10"), launcher("nas", "5", phase="Running")
    held = turn(web, database, storage)
    assert held is not None
    assert held.reason == "waits for default/db, which starts before it"
    assert turn(web, launcher("db", "10", phase="Running"), storage) is None


def test_those_of_one_order_start_together() -> None:
    assert turn(launcher("a", "10"), launcher("b", "10")) is None


def test_a_delay_counts_from_the_start_of_the_one_that_has_it() -> None:
    database = launcher("db", "10", delay="30", phase="Running", since=5)
    held = turn(launcher("web", "20"), database, after=15)
    assert held is not None
    assert held.seconds == pytest.approx(20)
    assert held.reason == "waits 30 s after the start of default/db"
    assert turn(launcher("web", "20"), database, after=35) is None


def test_a_delay_of_days_is_one_of_ten_minutes() -> None:
    database = launcher("db", "10", delay="999999", phase="Running", since=5)
    held = turn(launcher("web", "20"), database, after=15)
    assert held is not None
    assert held.seconds == pytest.approx(590)
    assert held.reason == "waits 600 s after the start of default/db"
    assert turn(launcher("web", "20"), database, after=606) is None


def test_a_long_row_ends_after_an_hour() -> None:
    last = launcher("x6", "6", delay="600", phase="Running", since=3300)
    assert turn(launcher("web", "20"), last, after=3599) is not None
    assert turn(launcher("web", "20"), last, after=3600) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_one_that_has_ended_is_not_waited_for(phase: str) -> None:
    assert turn(launcher("web", "20"), launcher("db", "10", phase=phase)) is None


def test_one_that_does_not_get_up_is_waited_for_only_so_long() -> None:
    assert turn(launcher("web", "20"), launcher("db", "10"), after=299) is not None
    assert turn(launcher("web", "20"), launcher("db", "10"), after=302) is None


def test_what_a_user_starts_later_waits_for_nobody() -> None:
    assert turn(launcher("web", "20", made=200), launcher("db", "10", made=201), after=205) is None


def test_an_order_that_is_no_number_is_none() -> None:
    assert turn(launcher("web", "soon"), launcher("db", "1"), after=0) is None
