"""What `test_migration` does not kill of a migration between two real kubelets: controller, the target's handler, the
kubelets, the source's QEMU, and the wire. Each time one guest runs, on one side, and the object tells it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from tests.support.cluster.counting_guest import CountingGuest, plain_counting_vm, running_counter
from tests.support.cluster.kvedge_cluster import SERVER, LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400), pytest.mark.incremental]

NAME = "walker"
# Less than the 30 s after which libvirt gives up a peer that is silent.
CUT_SECONDS = 8.0


@pytest.fixture(scope="module")
def guest(own_machine: None, cluster: LocalCluster) -> Iterator[CountingGuest]:
    """It counts, and has no disks but its Pod's."""
    with running_counter(cluster, plain_counting_vm(NAME, cluster.image)) as found:
        yield found


@pytest.fixture(autouse=True)
def moves_end(guest: CountingGuest) -> Iterator[None]:
    """A test that fails on the way leaves no migration that the next one would have to wait for."""
    yield
    guest.end_migrations()


def ends_with_one(guest: CountingGuest, name: str) -> VirtualMachineInstanceMigration:
    """The migration as it has ended: one guest runs, where the VMI says so, and counts on."""
    ended = guest.wait_migration(name, "Succeeded", "Failed", seconds=240)
    guest.wait_only_on(guest.node)
    guest.wait_counts_on()
    state = guest.vmi.status.migration_state
    assert state is not None
    assert (state.completed, state.failed) == (True, ended.status.phase == "Failed")
    assert guest.node == (state.source_node if state.failed else state.target_node)
    return ended


def test_a_target_s_handler_and_the_controller_killed_on_the_way_leave_one_guest(guest: CountingGuest) -> None:
    node = guest.leave(SERVER)
    with guest.under_way("without-both"), guest.cluster.without(SERVER, "kvedge", signal.SIGKILL):
        pass
    # Its way was the target's relay.
    assert ends_with_one(guest, "without-both").status.phase == "Failed"
    assert guest.node == node


def test_a_guest_that_waits_for_its_release_runs_once_handler_and_controller_are_back(guest: CountingGuest) -> None:
    guest.leave(SERVER)
    guest.migrate("unreleased")
    wait_until(lambda: guest.qemus() == [SERVER], "the guest has left", 60, 0.01)
    with guest.cluster.without(SERVER, "kvedge", signal.SIGKILL):
        pass
    assert ends_with_one(guest, "unreleased").status.phase == "Succeeded"
    assert guest.node == SERVER


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_kubelet_killed_on_the_way_changes_nothing(guest: CountingGuest, end: str) -> None:
    name, target = f"no-kubelet-{end}", guest.other_node
    with guest.under_way(name), guest.cluster.without(guest.node if end == "source" else target, "kubelet"):
        # Each ten seconds a Node is told to be alive.
        time.sleep(12)
    assert ends_with_one(guest, name).status.phase == "Succeeded"
    assert guest.node == target


def test_a_wire_that_is_cut_for_a_while_leaves_one_guest(guest: CountingGuest) -> None:
    guest.leave(SERVER)
    # The server's own wire has the API server's clients, too.
    node = guest.cluster.nodes[guest.node]
    with guest.under_way("cut"):
        node.set_link("down")
        try:
            time.sleep(CUT_SECONDS)
        finally:
            node.set_link("up")
    ends_with_one(guest, "cut")


def test_a_source_s_qemu_killed_on_the_way_is_an_end_and_the_vm_starts_anew_once(guest: CountingGuest) -> None:
    uid = guest.vmi.metadata.uid
    with guest.under_way("crashed"):
        for pid in guest.qemus_on(guest.node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: (vmi := guest.cluster.vmi(NAME)) is not None and vmi.metadata.uid != uid, "a new run", 120)
    guest.cluster.wait_phase(NAME, "Running")
    wait_until(lambda: guest.cluster.qemu_pids(uid) == [], "nothing of the old run is left", 60, 0.2)
    guest.wait_only_on(guest.node)
    guest.wait_counts()
    assert not guest.open_migrations()
