"""Probes of guests, asked by a real kubelet: who is ready and behind a Service, and who is ended and started anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.guest_image import write_guest_image
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.probed_guest import (
    FALL_SILENT,
    LISTEN,
    LISTENING,
    NOT_YET,
    PAGED,
    PROBES,
    PROGRAMMED,
    UNREADY,
    in_guest,
    probed_vm,
    ready,
    the_vmi,
    wait_liveness,
    wait_new_run,
    wait_ready,
    wait_told,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

IMAGE = "kvedge.local/agent-guest:1"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "page"},
    "spec": {"selector": {"vm.kubevirt.io/name": PAGED}, "ports": [{"port": 80}]},
}


@pytest.fixture(scope="module")
def probed(own_machine: None, cluster: LocalCluster) -> Iterator[LocalCluster]:
    """A cluster with VMs whose guests have the agent, and a Service of one of them."""
    archive = cluster.directory / "agent-guest.tar"
    write_guest_image(archive, IMAGE, agent=True)
    for node in cluster.nodes.values():
        node.import_image(archive)
    cluster.apply(SERVICE, *(probed_vm(name, IMAGE) for name in PROBES))
    yield cluster
    cluster.kubectl("delete", "service", "page")
    for name in PROBES:
        cluster.remove_vm(name)


def endpoints(cluster: LocalCluster) -> list[bool]:
    """Which of the Service's endpoints are ready."""
    return [entry.ready for entry in cluster.endpoints("page")]


def test_a_guest_is_behind_its_service_when_its_page_is_there(probed: LocalCluster) -> None:
    probed.wait_phase(PAGED, "Running")
    wait_until(lambda: ready(probed, PAGED).message == UNREADY, "the Pod's words are the VMI's")
    assert (ready(probed, PAGED).status, ready(probed, PAGED).reason) == ("False", "ContainersNotReady")
    probed.wait_answer(PAGED, 240)
    wait_told(probed, "Readiness probe failed: HTTP probe failed with statuscode: 404", 180)
    assert endpoints(probed) == [False]
    in_guest(probed, PAGED, "touch /www/ready")
    wait_ready(probed, PAGED, "True")
    wait_until(lambda: endpoints(probed) == [True], "the Service sends to it")
    in_guest(probed, PAGED, "rm /www/ready")
    wait_ready(probed, PAGED, "False")
    wait_until(lambda: endpoints(probed) == [False], "the Service sends to it no more")


def test_a_guest_is_ready_when_a_program_in_it_says_so(probed: LocalCluster) -> None:
    probed.wait_answer(PROGRAMMED, 240)
    wait_told(probed, f"Readiness probe failed: {NOT_YET}", 180)
    in_guest(probed, PROGRAMMED, "touch /run/ready")
    wait_ready(probed, PROGRAMMED, "True")


def test_a_guest_is_ready_while_it_listens_on_a_port(probed: LocalCluster) -> None:
    probed.wait_answer(LISTENING, 240)
    assert ready(probed, LISTENING).status == "False"
    in_guest(probed, LISTENING, LISTEN)
    wait_ready(probed, LISTENING, "True")


def test_a_guest_that_is_not_alive_is_ended_by_the_kubelet_and_started_anew(probed: LocalCluster) -> None:
    before = {name: the_vmi(probed, name) for name in PROBES}
    for name in PROBES:
        wait_liveness(probed, name)
    in_guest(probed, PAGED, "killall -9 qemu-ga")
    in_guest(probed, PROGRAMMED, "touch /run/dead")
    in_guest(probed, LISTENING, FALL_SILENT)
    for name in PROBES:
        wait_new_run(probed, name, before[name])
        wait_until(lambda gone=before[name]: probed.pods(gone) == [], "nothing is left of the run before")
