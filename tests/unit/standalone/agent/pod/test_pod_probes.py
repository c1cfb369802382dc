"""When containers are asked, what becomes of the answers, and that nobody waits for anybody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.kube.events import EventRecorder
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import ContainerStatus
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_state import Running
from kvedge.standalone.agent.container.probe_questions import Asked
from kvedge.standalone.agent.container.probe_rules import Answer, ProbeHistory, failure_text
from kvedge.standalone.agent.pod.local_pods import LocalPod
from kvedge.standalone.agent.pod.pod_probes import PodProbes
from kvedge.standalone.agent.pod.pod_record import new_record
from tests.support.builders import plain_pod as pod
from tests.support.waiting import wait_until
from tests.unit.standalone.agent.pods import ended

YES, NO = Answer(passed=True), Answer(passed=False, words="it hurts")
# As fast as its numbers, which count whole seconds, let it be: each test needs few of them.
OFTEN = {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 1}


class Played:
    """Everything around the probes: containers that answer as they are told, and what is told of them."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Exception] = {}
        self.asked: list[str] = []
        self.verdicts: list[Key] = []
        self.told: list[str] = []
        self.hold = threading.Event()
        self.hold.set()

    def ask(self, probe: JsonObject, asked: Asked) -> Answer:
        name = f"{asked.files.pod.name}/{asked.files.name}/{asked.kind}"
        self.asked.append(name)
        self.hold.wait(10)
        answer = self.answers.get(name, YES)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def record(self, about: object, kind: str, reason: str, message: str) -> None:
        self.told.append(f"{kind} {reason} {message}")


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def probes(played: Played) -> Iterator[PodProbes]:
    made = PodProbes(cast("EventRecorder", played), played.ask, played.verdicts.append, most_asked=4)
    made.start()
    yield made
    played.hold.set()
    made.stop()
    assert made.failure() is None


def local(uid: str = "u1", *, ready: bool = False, **probes: JsonObject) -> LocalPod:
    made = pod()
    made.metadata.uid = uid
    for name, probe in probes.items():
        setattr(made.spec.containers[0], f"{name}_probe", probe)
    status = ContainerStatus(name="c", ready=ready, restart_count=0, image="i", image_id="")
    made.status.container_statuses = [status]
    return LocalPod(Key("ns", uid), made, PodFiles(Path("/pods") / uid), new_record(made))


def running(since: float = 1000.0) -> dict[str, Any]:
    return {"c": Running(100, 5, since)}


def until(check: Callable[[], object], what: str) -> None:
    wait_until(check, what, 10, 0.01)


def test_readiness_is_no_until_somebody_says_yes(played: Played, probes: PodProbes) -> None:
    probed = local(readiness=OFTEN)
    assert probes.verdicts(probed) == {"c": False}
    probes.follow(probed, running())
    until(lambda: probes.verdicts(probed) == {"c": True}, "the yes")
    assert played.verdicts == [Key("ns", "u1")]
    played.answers["u1/c/Readiness"] = NO
    until(lambda: probes.verdicts(probed) == {"c": False}, "the no")
    until(lambda: played.told, "it is told")
    assert played.told[0] == "Warning Unhealthy Readiness probe failed: it hurts"


def test_a_container_without_a_probe_is_not_asked(played: Played, probes: PodProbes) -> None:
    probes.follow(local(), running())
    assert probes.verdicts(local()) == {}
    assert played.asked == []


def test_the_loop_is_called_when_a_verdict_changes_and_only_then(played: Played, probes: PodProbes) -> None:
    probed = local(liveness=OFTEN)
    probes.follow(probed, running())
    until(lambda: len(played.asked) >= 3, "it is asked again and again")
    assert len(played.verdicts) == 1


def test_after_a_restart_of_the_agent_what_was_ready_stays_so_until_it_is_asked(
    played: Played, probes: PodProbes
) -> None:
    played.hold.clear()
    probed = local(ready=True, readiness=OFTEN)
    probes.follow(probed, running())
    until(lambda: played.asked, "it is being asked")
    assert probes.verdicts(probed) == {"c": True}
    played.answers["u1/c/Readiness"] = NO
    played.hold.set()
    until(lambda: probes.verdicts(probed) == {"c": False}, "it has answered")


def test_liveness_that_says_no_is_the_end_and_nothing_more_is_asked(played: Played, probes: PodProbes) -> None:
    probed = local(liveness={**OFTEN, "terminationGracePeriodSeconds": 7})
    played.answers["u1/c/Liveness"] = NO
    assert probes.unhealthy(probed) == {}
    probes.follow(probed, running())
    until(lambda: probes.unhealthy(probed) == {"c": 7.0}, "the no")
    other = local("u2", liveness=OFTEN)
    probes.follow(other, running())
    until(lambda: played.asked.count("u2/c/Liveness") >= 2, "time goes by")
    assert played.asked.count("u1/c/Liveness") == 1
    probes.follow(probed, {"c": ended(137)})
    assert probes.unhealthy(probed) == {}


def test_a_grace_that_is_not_given_is_the_pods(played: Played, probes: PodProbes) -> None:
    probed = local(liveness=OFTEN)
    played.answers["u1/c/Liveness"] = NO
    probes.follow(probed, running())
    until(lambda: probes.unhealthy(probed) == {"c": None}, "the no")


def test_a_pod_that_is_being_deleted_is_not_asked_whether_it_lives(played: Played, probes: PodProbes) -> None:
    probed = local(liveness=OFTEN, readiness=OFTEN)
    probed.pod.metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
    probes.follow(probed, running())
    until(lambda: played.asked, "its readiness is asked")
    assert set(played.asked) == {"u1/c/Readiness"}


def test_the_first_question_comes_after_the_delay_counted_from_the_start(played: Played, probes: PodProbes) -> None:
    probes.follow(local("u1", readiness={**OFTEN, "initialDelaySeconds": 3600}), running(time.time()))
    probes.follow(local("u2", readiness={**OFTEN, "initialDelaySeconds": 3600}), running(time.time() - 7200))
    until(lambda: played.asked, "the older one is asked")
    assert set(played.asked) == {"u2/c/Readiness"}


def test_a_container_that_hangs_keeps_nobody_waiting(played: Played, probes: PodProbes) -> None:
    played.hold.clear()
    first = local("u1", readiness=OFTEN)
    probes.follow(first, running())
    until(lambda: played.asked, "the first hangs")
    probes.follow(local("u2", readiness=OFTEN), running())
    until(lambda: len(played.asked) == 2, "the second is asked")
    probes.follow(first, {"c": ended(0)})
    probes.forget("u2")
    played.hold.set()
    until(lambda: probes._under_way == 0, "both have answered")
    assert played.verdicts == [], "what has ended meanwhile is not judged"


def test_so_many_at_once_and_the_others_in_their_turn(played: Played, probes: PodProbes) -> None:
    played.hold.clear()
    for number in range(10):
        probes.follow(local(f"u{number}", readiness=OFTEN), running())
    until(lambda: len(played.asked) == 4, "four are asked")
    assert probes._under_way == 4
    played.hold.set()
    until(lambda: len(set(played.asked)) == 10, "all have been asked")


def test_a_defect_in_asking_is_no_verdict(played: Played, probes: PodProbes) -> None:
    played.answers["u1/c/Liveness"] = RuntimeError("a defect")
    probes.follow(local(liveness=OFTEN), running())
    until(lambda: len(played.asked) >= 2, "it is tried again")
    assert (played.verdicts, played.told) == ([], [])


def test_reasons_without_end_are_told_as_one() -> None:
    history = ProbeHistory(due=0.0)
    told = [failure_text(history, "Readiness", f"reason {number}") for number in range(100)]
    assert len(set(told)) == 11
    assert told[-1] == "Readiness probe failed: (combined from similar events)"
    assert failure_text(history, "Readiness", "reason 3") == "Readiness probe failed: reason 3"
