"""Probes of guests on one box: who is ready by a page or a program, and who is ended and started anew."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.kube.errors import KubeError
from tests.support.box import Box
from tests.support.guest import build_guest
from tests.support.probed_guest import (
    FALL_SILENT,
    LATE_PORT,
    LISTEN,
    LISTENING,
    NO_AGENT,
    NOT_YET,
    PAGED,
    PROBES,
    PROGRAMMED,
    SILENCE,
    UNREADY,
    in_guest,
    pod_of,
    probed_vm,
    ready,
    the_vmi,
    told,
    wait_liveness,
    wait_new_run,
    wait_ready,
    wait_told,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/agent:1"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A box with VMs whose guests have the agent."""
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.93.0.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest(agent=True).disk, IMAGE)
    found.start()
    for name in PROBES:
        found.apply(probed_vm(name, IMAGE))
    yield found
    found.remove()


def call(box: Box, name: str, verb: str, body: dict[str, Any] | None = None) -> None:
    path = f"/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/{name}/{verb}"
    box.client.request("PUT", path, body or {})


def wait_killed(box: Box, pod: str) -> None:
    """Until it is said that this Pod's container is ended, as it is not alive."""
    words = "Container compute failed liveness probe"
    wait_until(lambda: f"{pod}: {words}" in told(box, words), "it is told", 90)


def test_a_guest_is_ready_when_its_page_is_there(box: Box) -> None:
    box.wait_phase(PAGED, "Running")
    wait_until(lambda: ready(box, PAGED).message == UNREADY, "the Pod's words are the VMI's")
    assert (ready(box, PAGED).status, ready(box, PAGED).reason) == ("False", "ContainersNotReady")
    box.wait_answer(PAGED, 240)
    wait_told(box, "Readiness probe failed: HTTP probe failed with statuscode: 404", 180)
    assert ready(box, PAGED).status == "False"
    in_guest(box, PAGED, "touch /www/ready")
    wait_ready(box, PAGED, "True")
    wait_until(lambda: box.vm(PAGED).status.ready, "the VM is ready")
    in_guest(box, PAGED, "rm /www/ready")
    wait_ready(box, PAGED, "False")


def test_a_guest_is_ready_when_a_program_in_it_says_so(box: Box) -> None:
    box.wait_answer(PROGRAMMED, 240)
    wait_told(box, f"Readiness probe failed: {NOT_YET}", 180)
    assert ready(box, PROGRAMMED).status == "False"
    in_guest(box, PROGRAMMED, "touch /run/ready")
    wait_ready(box, PROGRAMMED, "True")


def test_a_guest_is_ready_while_it_listens_on_a_port(box: Box) -> None:
    box.wait_answer(LISTENING, 240)
    wait_told(box, f":{LATE_PORT}: connection refused", 180)
    assert ready(box, LISTENING).status == "False"
    in_guest(box, LISTENING, LISTEN)
    wait_ready(box, LISTENING, "True")


def test_a_guest_that_is_paused_or_frozen_is_not_taken_for_dead(box: Box) -> None:
    with pytest.raises(KubeError, match="non-GuestAgentPing LivenessProbe is not supported") as refused:
        call(box, PROGRAMMED, "pause")
    assert refused.value.status == 403
    for name in PROBES:
        wait_liveness(box, name)

    def state() -> object:
        return {name: the_vmi(box, name).metadata.uid for name in PROBES}, told(box, "failed liveness probe")

    # On a machine that is very slow one may have taken too long to boot, and been started anew: that is over.
    before = state()
    call(box, PAGED, "pause")
    call(box, PROGRAMMED, "freeze", {"unfreezeTimeout": "300s"})
    until = time.time() + SILENCE + 8
    wait_until(lambda: time.time() > until, "longer than a guest may be silent", 60, 1.0)
    call(box, PAGED, "unpause")
    call(box, PROGRAMMED, "unfreeze")
    assert state() == before


def test_a_guest_whose_agent_dies_is_started_anew(box: Box) -> None:
    before = the_vmi(box, PAGED)
    pod = pod_of(box, before)
    in_guest(box, PAGED, "killall -9 qemu-ga")
    wait_killed(box, pod)
    assert f"{pod}: Liveness probe failed: {NO_AGENT}" in told(box, NO_AGENT)
    wait_told(box, f"GuestAgentPing probe failed for VMI {PAGED}")
    wait_new_run(box, PAGED, before)


def test_a_guest_that_a_program_calls_dead_is_started_anew(box: Box) -> None:
    before = the_vmi(box, PROGRAMMED)
    pod = pod_of(box, before)
    in_guest(box, PROGRAMMED, "touch /run/dead")
    wait_killed(box, pod)
    wait_new_run(box, PROGRAMMED, before)


def test_a_guest_that_no_longer_listens_is_started_anew(box: Box) -> None:
    before = the_vmi(box, LISTENING)
    pod = pod_of(box, before)
    in_guest(box, LISTENING, FALL_SILENT)
    wait_killed(box, pod)
    wait_new_run(box, LISTENING, before)
