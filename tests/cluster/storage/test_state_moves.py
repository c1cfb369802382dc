"""A guest whose TPM lasts moves between two real kubelets' nodes, on claims that k3s's storage keeps on one node."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kvedge.resources.disks.state_claims import STATE_CLAIM, STATE_LABEL, state_claim_of
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.storage.state_files import TPM_STATE
from tests.support.box import processes
from tests.support.cluster.counting_guest import CountingGuest, plain_counting_vm, running_counter
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.local_path import DIRECTORY
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300), pytest.mark.incremental]

NAME = "sealer"


@pytest.fixture(scope="module")
def sealer(local_path: LocalCluster) -> Iterator[CountingGuest]:
    """It counts, and its TPM's state is on a claim of its node."""
    vm = plain_counting_vm(NAME, local_path.image)
    vm["spec"]["template"]["spec"]["domain"]["devices"]["tpm"] = {"persistent": True}
    with running_counter(local_path, vm) as guest:
        yield guest


def states(guest: CountingGuest) -> list[str]:
    """The claims that are made for its state, and that nobody has deleted."""
    label = f"{STATE_LABEL}={NAME}"
    found = guest.cluster.client.list(PersistentVolumeClaim, guest.cluster.namespace, label_selector=label)
    return [claim.metadata.name for claim in found if claim.metadata.deletion_timestamp is None]


def tpm(guest: CountingGuest, node: str, claim: str) -> bytes:
    """What is in the TPM, on the claim of a node."""
    place = guest.cluster.nodes[node].directory / DIRECTORY.lstrip("/")
    (found,) = place.glob(f"pvc-*_{guest.cluster.namespace}_{claim}")
    pointer = found / "swtpm.current"
    current = pointer.read_text() if pointer.exists() else "swtpm"
    return Path(found, current, TPM_STATE).read_bytes()


def check_named(guest: CountingGuest, claim: str) -> None:
    """The VM and its run name this claim, and there is no other one."""

    def is_so() -> bool:
        named = [state_claim_of(each.metadata) for each in (guest.cluster.vm(NAME), guest.vmi)]
        return named == [claim, claim] and states(guest) == [claim]

    wait_until(is_so, f"{claim} is the only claim", 60, 0.2)


def test_a_tpm_comes_to_a_claim_of_the_other_node_and_its_vm_starts_there_again(sealer: CountingGuest) -> None:
    guest = sealer
    source, target = guest.node, guest.other_node
    (first,) = states(guest)
    sealed = tpm(guest, source, first)
    guest.migrate("there")
    ended = guest.wait_migration("there", "Succeeded", "Failed", seconds=120)
    assert ended.status.phase == "Succeeded", guest.cluster.told(NAME)
    guest.wait_only_on(target)
    guest.wait_counts_on()
    state = guest.vmi.status.migration_state
    assert state is not None
    second = state.target_persistent_state_pvc_name
    assert (state.source_persistent_state_pvc_name, second != first) == (first, True)
    check_named(guest, second)
    # QEMU has brought all of it; swtpm may write it in another order.
    assert len(tpm(guest, target, second)) == len(sealed)
    guest.cluster.cli("restart", NAME)
    uid = guest.vmi.metadata.uid
    wait_until(lambda: (found := guest.cluster.vmi(NAME)) is not None and found.metadata.uid != uid, "a new run", 90)
    vmi = guest.cluster.wait_phase(NAME, "Running")
    assert (vmi.status.node_name, vmi.metadata.annotations[STATE_CLAIM]) == (target, second)
    assert states(guest) == [second]


def test_a_target_that_is_killed_on_the_way_leaves_the_tpm_where_it_is(sealer: CountingGuest) -> None:
    guest = sealer
    node, (claim,) = guest.node, states(guest)
    guest.wait_counts()
    with guest.under_way("killed"):
        assert len(states(guest)) == 2
        uid = guest.migration("killed").metadata.uid
        for pid in [pid for pid, command in processes() if uid in command]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        guest.wait_migration("killed", "Failed")
    guest.wait_only_on(node)
    guest.wait_counts_on()
    check_named(guest, claim)
