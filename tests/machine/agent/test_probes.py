"""Probes of one box's agent on real containers: who is ready, who is ended, and what outlasts the agent."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.meta import condition
from kvedge.resources.types.core import Container, Pod
from tests.machine.agent.box import Box, box, marks
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, busybox: Path) -> Iterator[Box]:
    data = tmp_path_factory.mktemp("box")
    with box(data, busybox, "10.243.19.0/24") as made:
        made.start_agent()
        yield made
        config = made.config
    assert marks(config) == []


def probed(shared: Box, name: str, script: str, **changes: Any) -> Pod:
    container = Container(name="c", image="busybox", command=["sh", "-c", script])
    spec = {key: changes.pop(key) for key in list(changes) if not key.endswith("_probe")}
    for key, value in changes.items():
        setattr(container, key, value)
    shared.create(name, script, containers=[container], volumes=[], **spec)
    return shared.in_phase(name, "Running")


def is_ready(shared: Box, name: str) -> bool:
    pod = shared.pod(name)
    found = condition(pod.status.conditions, "Ready") if pod else None
    return found is not None and found.status == "True"


def program(script: str, **numbers: Any) -> dict[str, Any]:
    return {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, **numbers}


def told(shared: Box, name: str, words: str) -> bool:
    return any(words in message for _, message in shared.events(name))


def test_a_program_in_the_container_decides_over_its_readiness(shared: Box) -> None:
    script = "while sleep 0.1; do test -e /tmp/go && touch /tmp/ready; test -e /tmp/stop && rm -f /tmp/ready; done"
    probe = program("test -e /tmp/ready || { echo not yet; touch /tmp/go; exit 1; }", failureThreshold=1)
    probed(shared, "by-program", script, readiness_probe=probe)
    wait_until(lambda: told(shared, "by-program", "Readiness probe failed: not yet"), "it is told")
    wait_until(lambda: is_ready(shared, "by-program"), "it is ready")


def test_a_container_that_is_not_alive_ends_and_its_pod_fails(shared: Box) -> None:
    trap = "trap 'exit 5' TERM; while sleep 0.1; do :; done"
    probed(shared, "dies", trap, liveness_probe=program("echo no pulse; exit 1", failureThreshold=2))
    pod = shared.in_phase("dies", "Failed")
    state = pod.status.container_statuses[0].state
    assert state is not None
    assert state.terminated is not None
    assert state.terminated.exit_code == 5
    wait_until(lambda: told(shared, "dies", "Container c failed liveness probe"), "it is told")
    assert told(shared, "dies", "Liveness probe failed: no pulse")


def test_one_that_does_not_end_by_itself_is_killed_in_the_probe_s_own_time(shared: Box) -> None:
    probe = program("exit 1", failureThreshold=1, terminationGracePeriodSeconds=1)
    stubborn = "trap '' TERM; while sleep 0.1; do :; done"
    probed(shared, "stubborn", stubborn, liveness_probe=probe, termination_grace_period_seconds=3600)
    pod = shared.in_phase("stubborn", "Failed")
    state = pod.status.container_statuses[0].state
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.reason) == (137, "Error")


def test_programs_that_hang_hold_up_nobody(shared: Box) -> None:
    for number in range(12):
        probe = program("sleep 300", timeoutSeconds=200)
        container = Container(name="c", image="busybox", command=["sleep", "1000"], readiness_probe=probe)
        shared.create(f"hangs-{number}", "", containers=[container], volumes=[])
    for number in range(12):
        shared.in_phase(f"hangs-{number}", "Running")
    probed(shared, "prompt", "sleep 1000", readiness_probe=program("true"))
    wait_until(lambda: is_ready(shared, "prompt"), "another is ready")
    for number in range(12):
        shared.client.delete(Pod, "default", f"hangs-{number}")
    for number in range(12):
        shared.wait_gone(f"hangs-{number}")


def test_what_is_ready_stays_so_when_the_agent_is_killed_and_is_asked_on(shared: Box) -> None:
    # The file is in the container's own root: only from inside can it be seen.
    script = "touch /tmp/ready; while sleep 0.1; do test $(cat /tmp/asked | wc -l) -lt 8 || rm -f /tmp/ready; done"
    probe = program("echo >>/tmp/asked; test -e /tmp/ready", failureThreshold=1)
    probed(shared, "outlasts", f"touch /tmp/asked; {script}", readiness_probe=probe)
    wait_until(lambda: is_ready(shared, "outlasts"), "it is ready")
    shared.stop_agent(signal.SIGKILL)
    shared.start_agent()
    assert is_ready(shared, "outlasts")
    wait_until(lambda: not is_ready(shared, "outlasts"), "the new agent asks on")
    assert shared.pod("outlasts").status.phase == "Running"  # type: ignore[union-attr]


def test_a_page_decides_over_readiness(shared: Box) -> None:
    serve = "mkdir /tmp/www; httpd -p 8080 -h /tmp/www; sleep 1000"
    page = {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1}
    pod = probed(shared, "page", serve, readiness_probe=page)
    wait_until(lambda: told(shared, "page", "HTTP probe failed with statuscode: 404"), "it is told")
    Path(f"/proc/{shared.pid(pod)}/root/tmp/www/index.html").touch()
    wait_until(lambda: is_ready(shared, "page"), "it is ready")
