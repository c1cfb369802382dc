# Tests: kvedge/controller/vmi/launcher_pod_status.py
"""What a VMI says of the containers that hold its images when they do not run."""

from __future__ import annotations

import pytest

from kvedge.controller.vmi.launcher_pod_status import START_REASONS, start_failure
from kvedge.resources.types.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
)
from kvedge.resources.types.pod_networks import NO_NETWORK
from tests.support.builders import a_pod, a_vmi

CAUSE = 'OCI runtime create failed: error mounting "/usr" to rootfs at "/usr": not a directory'


def pod_with(name: str, reason: str, message: str, ended: str | None = None, exit_code: int = 128) -> Pod:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
    last = (
        None
        if ended is None
        else ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code, message=ended))
    )
    status = ContainerStatus(
        name=name, ready=False, restart_count=1, image="i", image_id="", state=waiting, last_state=last
    )
    pod = a_pod(a_vmi("Scheduling"))
    pod.status.init_container_statuses = [status]
    return pod


@pytest.mark.parametrize(
    ("reason", "message", "ended"),
    [
        pytest.param("RunContainerError", CAUSE, None, id="the first try"),
        pytest.param("CrashLoopBackOff", "back-off 10s restarting failed container", CAUSE, id="between two tries"),
        pytest.param("RunContainerError", CAUSE, CAUSE, id="a later try"),
    ],
)
@pytest.mark.parametrize("name", ["volumeroot", "kernel-boot"])
def test_a_container_of_an_image_that_cannot_start_is_told_with_one_cause(name, reason, message, ended):
    failure = start_failure(pod_with(name, reason, message, ended))
    assert failure is not None
    assert (failure.type, failure.status, failure.reason) == ("Synchronized", "False", "RunContainerError")
    assert failure.message == f"container {name} does not run: {CAUSE}"
    assert failure.reason in START_REASONS, "it goes again when the container runs"


def test_one_that_ended_without_a_word_is_told_with_its_exit_code():
    failure = start_failure(pod_with("volumeroot", "CrashLoopBackOff", "back-off", "", 137))
    assert failure is not None
    assert failure.message == "container volumeroot does not run: exit code 137"


def test_what_others_put_into_the_pod_may_start_again_and_again():
    assert start_failure(pod_with("mesh", "CrashLoopBackOff", "back-off 10s")) is None


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("network default/lan: there is no bridge br0", "spec.networks[1]: "),
        ("there is no network default/lan: `kvedge network create lan -n default` makes one", "spec.networks[1]: "),
        ("network default/lan2: there is no bridge br0", ""),
        ("cannot add address", ""),
    ],
    ids=["no bridge", "no network", "another network", "the Pod's own network"],
)
def test_a_network_that_is_not_there_at_the_start_is_a_condition_that_names_its_field(said: str, field: str) -> None:
    message = f"Failed to create pod sandbox: {said}"
    failure = start_failure(pod_with("compute", NO_NETWORK, message), {"default/lan": "spec.networks[1]"})
    assert failure is not None
    assert (failure.reason, failure.message) == (NO_NETWORK, f"{field}{message}")
    assert failure.reason in START_REASONS, "it goes again when the Pod has its networks"
