"""The claim to which a TPM's state comes, over a small server: made for the migration, and what is left goes."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.disks.state_claims import (
    STATE_CLAIM,
    STATE_LABEL,
    coming_claim_name,
    make_state_claim,
    state_claim_name,
)
from kvedge.resources.meta import owner_reference
from kvedge.resources.types.migrations import MIGRATION_FINALIZER, MigrationState, VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import ClaimInfo, VirtualMachineInstance, VolumeStatus
from tests.support.builders import a_vm, vmi_with
from tests.support.values import replace
from tests.unit.controller.migrations.small_server import SmallServer
from tests.unit.controller.migrations.test_migration_loop import add_guest, phase, start
from tests.unit.controller.migrations.test_target_creation import claims_of, target

OLD = state_claim_name("web")


def a_guest(server: SmallServer, *, of_vm: bool = True) -> tuple[VirtualMachineInstance, str]:
    """A guest with a TPM on a claim of one node, and the claim that its migration has for that."""
    vmi = add_guest(server)
    vmi.spec = vmi_with({"domain": {"devices": {"tpm": {"persistent": True}}}}).spec
    info = ClaimInfo(claim_name=OLD, access_modes=["ReadWriteOnce"])
    vmi.status.volume_status = [
        VolumeStatus(name="persistent-state-for-this-vm", target="", persistent_volume_claim_info=info)
    ]
    if of_vm:
        vm = server.put(a_vm())
        vmi.metadata.owner_references = [owner_reference(vm)]
    old = a_state(vmi)
    old.status.phase = "Bound"
    for item in (vmi, old):
        server.put(item)
    server.tell()
    return vmi, coming_claim_name("web", server.find(VirtualMachineInstanceMigration, "move-web").job)


def a_state(vmi: VirtualMachineInstance, name: str = "") -> PersistentVolumeClaim:
    made = make_state_claim(vmi, "fast", name)
    made.metadata.uid = f"uid-of-{made.metadata.name}"
    return made


def claim(server: SmallServer, name: str) -> Any:
    return server.live.get((PersistentVolumeClaim, name))


def test_it_is_made_as_the_one_before_and_the_pod_has_it_alone() -> None:
    server = SmallServer()
    _, coming = a_guest(server)
    server.turn("move-web")
    made, pod = claim(server, coming), target(server)
    assert (made.spec.storage_class_name, made.spec.access_modes) == ("fast", ["ReadWriteOnce"])
    assert made.metadata.labels == {STATE_LABEL: "web"}
    assert [owner.kind for owner in made.metadata.owner_references] == ["VirtualMachine"]
    assert pod is not None
    assert claims_of(pod) == [coming]


def test_a_claim_of_that_name_which_is_somebody_else_s_is_not_taken() -> None:
    server = SmallServer()
    _, coming = a_guest(server)
    foreign = a_state(vmi_with(uid="another"), coming)
    server.put(foreign)
    server.tell()
    server.turn("move-web")
    assert target(server) is None
    assert any("is not this VM's" in text for *_, text in server.told())


def test_none_is_made_before_the_vm_names_that_of_the_migration_before() -> None:
    server = SmallServer()
    vmi, coming = a_guest(server)
    vmi.metadata.annotations[STATE_CLAIM] = "moved"
    # The migration before has brought the guest into the Pod that it is in: nothing else keeps it there.
    (pod,) = server.pods()
    vmi.status.migration_state = replace(
        moved(OLD, "moved"), target_node=vmi.status.node_name, target_pod=pod.metadata.name
    )
    info = ClaimInfo(claim_name="moved", access_modes=["ReadWriteOnce"])
    vmi.status.volume_status[0].persistent_volume_claim_info = info
    there = a_state(vmi, "moved")
    there.status.phase = "Bound"
    for item in (there, vmi):
        server.put(item)
    server.tell()
    server.turn("move-web")
    server.turn("move-web")
    assert (server.told(), target(server), claim(server, coming)) == ([], None, None)
    vm = server.find(VirtualMachine, "web")
    vm.metadata.annotations[STATE_CLAIM] = "moved"
    server.put(vm)
    server.turn("move-web")
    assert (target(server) is not None, claim(server, coming) is not None) == (True, True)


@pytest.mark.parametrize(
    "dropped", ["sourcePersistentStatePVCName", "targetPersistentStatePVCName", "targetTakenTimestamp"]
)
def test_a_crd_of_an_older_release_fails_the_migration_before_anything_moves(dropped: str) -> None:
    server = SmallServer()
    _, coming = a_guest(server)
    server.drops = {dropped}
    server.turn("move-web")
    pod = target(server)
    assert pod is not None
    start(server, pod)
    server.turn("move-web")
    vmi = server.find(VirtualMachineInstance, "web")
    assert (vmi.status.migration_state, phase(server, "move-web")) == (None, "Failed")
    ((kind, text),) = [(kind, text) for kind, reason, text in server.told() if reason == "FailedMigration"]
    assert (kind, "apply k3s/crds of this release" in text) == ("Warning", True)
    # And what was made for it goes.
    assert (target(server), claim(server, coming)) == (None, None)


def test_both_claims_are_handed_over_and_nothing_is_said_to_be_taken_yet() -> None:
    server = SmallServer()
    _, coming = a_guest(server)
    server.turn("move-web")
    pod = target(server)
    assert pod is not None
    start(server, pod)
    server.turn("move-web")
    state = server.find(VirtualMachineInstance, "web").status.migration_state
    assert (state.source_persistent_state_pvc_name, state.target_persistent_state_pvc_name) == (OLD, coming)
    assert (state.is_open, state.target_taken_timestamp) == (True, None)


def moved(source: str, to: str, *, taken: bool = True) -> MigrationState:
    return MigrationState(
        migration_uid="earlier",
        completed=True,
        source_persistent_state_pvc_name=source,
        target_persistent_state_pvc_name=to,
        source_node_domain_gone_timestamp="2026-01-02T03:00:00Z",
        target_taken_timestamp="2026-01-02T03:00:00Z" if taken else None,
    )


def ended(server: SmallServer, phase: Any, *, taken: bool, vm_names: bool, of_vm: bool = True) -> str:
    """The migration has ended like that; the claim to which the state was to come."""
    vmi, coming = a_guest(server, of_vm=of_vm)
    server.put(a_state(vmi, coming))
    migration = server.find(VirtualMachineInstanceMigration, "move-web")
    state = moved(OLD, coming, taken=taken)
    state.migration_uid = migration.job
    vmi.status.migration_state = state
    migration.status.phase, migration.status.migration_state = phase, state
    if taken:
        vmi.metadata.annotations[STATE_CLAIM] = coming
    if vm_names:
        vm = server.find(VirtualMachine, "web")
        vm.metadata.annotations[STATE_CLAIM] = coming
        server.put(vm)
    for item in (vmi, migration):
        server.put(item)
    server.tell()
    server.turn("move-web")
    server.turn("move-web")
    return coming


def test_what_the_guest_has_left_goes_once_its_vm_names_the_other_claim() -> None:
    server = SmallServer()
    coming = ended(server, "Succeeded", taken=True, vm_names=True)
    assert (claim(server, OLD), claim(server, coming) is not None) == (None, True)


def test_what_the_guest_has_left_stays_while_its_vm_would_start_from_it() -> None:
    server = SmallServer()
    coming = ended(server, "Succeeded", taken=True, vm_names=False)
    assert claim(server, OLD) is not None
    assert claim(server, coming) is not None


def test_a_guest_without_a_vm_leaves_none_either() -> None:
    server = SmallServer()
    coming = ended(server, "Succeeded", taken=True, vm_names=False, of_vm=False)
    assert (claim(server, OLD), claim(server, coming) is not None) == (None, True)


def test_where_the_guest_stays_what_was_made_for_it_goes() -> None:
    server = SmallServer()
    coming = ended(server, "Failed", taken=False, vm_names=False)
    assert (claim(server, coming), claim(server, OLD) is not None) == (None, True)


@pytest.mark.parametrize("vm_names", [False, True])
def test_of_a_guest_that_was_lost_after_its_state_had_come_the_claim_of_before_goes_once_the_vm_names_the_other(
    vm_names: bool,
) -> None:
    server = SmallServer()
    coming = ended(server, "Failed", taken=True, vm_names=vm_names)
    assert (claim(server, OLD) is None) is vm_names
    assert claim(server, coming) is not None


@pytest.mark.parametrize("taken", [False, True])
def test_a_migration_that_is_deleted_or_has_lost_its_run_leaves_no_claim_behind(taken: bool) -> None:
    for is_going in (False, True):
        server = SmallServer()
        vmi, coming = a_guest(server)
        server.put(a_state(vmi, coming))
        migration = server.find(VirtualMachineInstanceMigration, "move-web")
        state = moved(OLD, coming, taken=taken)
        state.migration_uid = migration.job
        vmi.status.migration_state = state
        migration.status.phase, migration.status.migration_state = "Succeeded" if taken else "Failed", state
        migration.metadata.finalizers = [MIGRATION_FINALIZER]
        if is_going:
            migration.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
        else:
            server.tell()
            server.remove(vmi)
        if taken:
            vmi.metadata.annotations[STATE_CLAIM] = coming
            vm = server.find(VirtualMachine, "web")
            vm.metadata.annotations[STATE_CLAIM] = coming
            server.put(vm)
        for item in (migration, vmi)[: 2 if is_going else 1]:
            server.put(item)
        server.tell()
        server.turn("move-web")
        left = {name for name in (OLD, coming) if claim(server, name) is not None}
        assert left == {coming if taken else OLD}, is_going


def test_a_claim_that_a_restore_has_made_is_not_deleted() -> None:
    server = SmallServer()
    vmi, coming = a_guest(server)
    restored = a_state(vmi)
    restored.metadata.owner_references = []
    server.put(restored)
    migration = server.find(VirtualMachineInstanceMigration, "move-web")
    state = moved(OLD, coming)
    migration.status.phase, migration.status.migration_state = "Succeeded", state
    vmi.metadata.annotations[STATE_CLAIM] = coming
    vm = server.find(VirtualMachine, "web")
    vm.metadata.annotations[STATE_CLAIM] = coming
    for item in (vm, vmi, migration):
        server.put(item)
    server.tell()
    server.turn("move-web")
    assert claim(server, OLD) is not None
