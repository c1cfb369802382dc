"""A node that cannot reach its API ends the guests that may run elsewhere, before they do, and no others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kvedge.kube.errors import NotFound
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.node_loss.fence_terms import SELF_FENCING, FenceTerms
from kvedge.resources.node_loss.node_lease import (
    NODES_NAMESPACE,
    ON_NODE_LOSS,
    RESTART,
    NodeFence,
    lease_name,
    read_fence,
)
from kvedge.resources.types.core import ConfigMap, Node
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import small_vm
from tests.support.cluster import played_watchdog
from tests.support.cluster.kvedge_cluster import SERVER, LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

LOST = "n2"
# On a busy machine a renewal may take seconds.
TERMS = FenceTerms(silence=12, watchdog=4, renew=1, check=1, margin=3)
VMS = ("moves", "stays")
WORDS: tuple[dict[str, str], ...] = ({ON_NODE_LOSS: RESTART}, {})
# Kubernetes deletes Pods of a node that is silent for long: this cluster's are not to be.
PATIENCE = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    for key in ("unreachable", "not-ready")
]
# Below a directory that is the node's own.
FED = "/var/lib/kvedge/played-watchdog"


@pytest.fixture(scope="module")
def fencing(own_machine: None, cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster, whose nodes fence themselves with watchdogs that reset nothing."""
    before = dict(cluster.programs)
    for name in (SERVER, LOST):
        cluster.programs[name] = [sys.executable, played_watchdog.__file__, FED]
        cluster.restart_kvedge(name)
        wait_until(lambda name=name: cluster.is_schedulable(name), f"{name} serves", 120, 0.2)  # type: ignore[misc]
    wait_until(lambda: cluster.serves_api(SERVER), "the api role is back", 60, 0.2)
    wait_until(lambda: annotate(cluster, f"{SELF_FENCING}={TERMS.format()}"), "it is switched on", 60, 0.5)
    yield cluster
    annotate(cluster, f"{SELF_FENCING}-")
    cluster.programs.clear()
    cluster.programs.update(before)
    for name in (SERVER, LOST):
        cluster.restart_kvedge(name)
        wait_until(lambda name=name: cluster.is_schedulable(name), f"{name} serves", 60, 0.2)  # type: ignore[misc]


@pytest.fixture
def bed(fencing: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster while the node is well, and without what a test that failed has left."""
    # Pods go where the devices are, and a new handler offers its own a little later.
    wait_until(lambda: takes_guests(fencing), f"{LOST} takes guests", 90, 0.5)
    yield fencing
    for name in VMS:
        fencing.remove_vm(name)


def takes_guests(cluster: LocalCluster) -> bool:
    node = cluster.client.get(Node, "", LOST)
    offers = node.status.allocatable.get("devices.kubevirt.io/tun", "0") != "0"
    return offers and not node.spec.taints and cluster.is_ready(LOST) and cluster.is_schedulable(LOST)


def annotate(cluster: LocalCluster, what: str) -> bool:
    words = ("annotate", "--overwrite", "kubevirt", "kubevirt", "-n", SYSTEM_NAMESPACE, what)
    return cluster.kubectl(*words, check=False).returncode == 0


def start(cluster: LocalCluster, name: str, annotations: dict[str, str]) -> VirtualMachineInstance:
    """A VM on the node that is about to be lost, which may run on the other one, too."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [LOST]}]}
    prefers = [{"weight": 100, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": prefers}}
    vm = small_vm(name, cluster.image, affinity=affinity, tolerations=PATIENCE)
    vm["spec"]["template"].setdefault("metadata", {}).setdefault("annotations", {}).update(annotations)
    cluster.apply(vm)
    vmi = cluster.wait_phase(name, "Running")
    assert vmi.status.node_name == LOST
    return vmi


def test_a_node_that_is_cut_off_ends_its_guest_before_it_runs_elsewhere(bed: LocalCluster) -> None:
    cluster = bed
    moves, stays = (start(cluster, name, annotations) for name, annotations in zip(VMS, WORDS, strict=True))
    qemu = cluster.qemu_pids(stays.metadata.uid)

    def lease() -> NodeFence:
        with suppress(NotFound):
            return read_fence(cluster.client.get(ConfigMap, NODES_NAMESPACE, lease_name(LOST)))
        return NodeFence()

    wait_until(
        lambda: lease().promised == {moves.metadata.uid},
        "its handler has promised to end the one, and not the other",
        20,
        0.2,
    )
    watchdog = cluster.nodes[LOST].directory / FED.lstrip("/")
    hang(cluster, watchdog)
    cluster.nodes[LOST].set_link("down")
    try:
        runs = wait_until(lambda: first_of_next(cluster, moves), "the VM's next guest is there", 60, 0.1)
        assert runs
        # Before that the last one had gone.
        assert cluster.qemu_pids(moves.metadata.uid) == []
        # The machine was not reset: nothing is left of what was promised.
        assert played_watchdog.last_note(watchdog)[0] == played_watchdog.FED
        assert cluster.qemu_pids(stays.metadata.uid) == qemu
        assert cluster.wait_phase("moves", "Running").status.node_name == SERVER
        found = cluster.vmi("stays")
        assert found is not None
        assert found.metadata.uid == stays.metadata.uid
    finally:
        cluster.nodes[LOST].set_link("up")
    # At once, and not when the kernel gives up the connections of before.
    cluster.restart_kvedge(LOST)
    wait_until(lambda: not lease().gone and not lease().promised, "the node is back, and has nothing of it", 60, 0.5)
    assert cluster.qemu_pids(stays.metadata.uid) == qemu
    cluster.wait_answer("stays", 30)


def first_of_next(cluster: LocalCluster, vmi: VirtualMachineInstance) -> list[int]:
    """The QEMU of the VM's next run. Two at once are the end of the test."""
    last = cluster.qemu_pids(vmi.metadata.uid)
    found = cluster.vmi(vmi.metadata.name)
    if found is None or found.metadata.uid == vmi.metadata.uid:
        return []
    next_ones = cluster.qemu_pids(found.metadata.uid)
    assert not (last and next_ones), "two guests of one VM"
    return next_ones


def hang(cluster: LocalCluster, watchdog: Path) -> None:
    """A handler that hangs feeds nothing."""
    node = cluster.nodes[LOST]
    wait_until(lambda: played_watchdog.last_note(watchdog)[0] == played_watchdog.FED, "it is fed", 10, 0.1)
    pid = node.find("kvedge")
    os.kill(pid, signal.SIGSTOP)
    try:
        before = played_watchdog.last_note(watchdog)
        other = cluster.nodes[SERVER]
        # As long as two looks of another process take.
        for _ in range(2 * TERMS.check):
            other.run("sleep", "1")
        assert played_watchdog.last_note(watchdog) == before
    finally:
        # What runs it in the node's namespaces stops itself when it does, and does not go on by itself.
        for each in (pid, node.runner("kvedge")):
            os.kill(each, signal.SIGCONT)
    wait_until(lambda: played_watchdog.last_note(watchdog) != before, "it is fed again", 10, 0.1)
