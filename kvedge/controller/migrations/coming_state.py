"""The claim that a migration brings the state of TPM and firmware to, where the nodes cannot have one at a time.

Held by what makes the target's Pod, and by the migration's steps for what is left afterwards. Reads and writes claims
on the API server. A claim counts once the target's handler has said that all of the state is there
(`targetTakenTimestamp`), before the guest runs; from then on VMI and VM name it. One that nobody names any more goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kvedge.controller.migrations.migration_view import MigrationView
from kvedge.kube.errors import AlreadyExists, KubeError, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.observed_delete import delete_observed
from kvedge.resources.disks.state_claims import (
    STATE_LABEL,
    coming_claim_name,
    is_owned_state,
    make_state_claim,
    moved_claim_of,
    state_claim_of,
    state_claim_of_run,
)
from kvedge.resources.moves.disk_moves import MOVED_FROM
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# A cache that is behind the server waits so long for its watch.
CAUGHT_UP_SECONDS: Final = 0.05
# A VM names its other claim within moments.
_NAMED_SECONDS: Final = 1.0
# A VM was told to have this claim.
_HELD_SECONDS: Final = 60.0


class ComingState:
    """Makes such claims, and deletes those that no VM has any more."""

    def __init__(
        self,
        client: KubeClient,
        claims: Informer[PersistentVolumeClaim],
        refuse: Callable[[MigrationView, str], float],
    ) -> None:
        """`refuse` tells why nothing is made, and in how many seconds to try again."""
        self._client = client
        self._claims = claims
        self._refuse = refuse

    def ensure(
        self,
        view: MigrationView,
        vmi: VirtualMachineInstance,
        wanted: str,
        found: dict[str, PersistentVolumeClaim],
    ) -> float | None:
        """Have the claim `wanted` there, and in `found`; a number ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server refuses for now; the pass is repeated.
        """
        if wanted != coming_claim_name(vmi.metadata.name, view.migration.job):
            return None
        vm = self._find_vm(vmi)
        if vm is not None and moved_claim_of(vm.metadata, vmi):
            # The VM is about to name the claim of the migration before: this one would make it miss that.
            return _NAMED_SECONDS
        before = self._claims.get(vmi.metadata.namespace, state_claim_of_run(vmi))
        if before is None:
            return CAUGHT_UP_SECONDS
        if wanted not in found:
            try:
                made = self._client.create(_make_claim(vmi, before, wanted))
            except AlreadyExists:
                made = self._client.get(PersistentVolumeClaim, vmi.metadata.namespace, wanted)
            except KubeError as error:
                return self._refuse(view, f"PVC {wanted} for the state of TPM and UEFI firmware: {error}")
            self._claims.observe(made)
            found[wanted] = made
        claim = found[wanted]
        if not is_owned_state(claim, vmi) or claim.metadata.deletion_timestamp is not None:
            return self._refuse(
                view, f"PVC {wanted} exists and is not this VM's, or is being deleted: it is to get the VM's state"
            )
        return None

    def find_left(self, view: MigrationView) -> PersistentVolumeClaim | None:
        """The claim that a migration which has ended leaves without a use: where nothing came, or what was left."""
        migration, state = view.migration, view.migration.status.migration_state
        if not migration.is_final or migration.spec.receive is not None or migration.spec.send_to is not None:
            return None
        if migration.status.phase == "Succeeded":
            name = "" if state is None or not state.moves_state else state.source_persistent_state_pvc_name
        elif state is not None and state.moves_state and state.target_taken_timestamp:
            # The guest was lost after its state had come.
            name = state.source_persistent_state_pvc_name
        else:
            name = coming_claim_name(migration.spec.vmi_name, migration.job)
        claim = self._claims.get(migration.metadata.namespace, name) if name else None
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return None
        if view.vmi is None:
            owner = claim.metadata.controller_reference()
            is_of_vm = owner is not None and owner.kind == VirtualMachine.KIND.kind
            return claim if is_of_vm and STATE_LABEL in claim.metadata.labels else None
        # One that a restore has made is not ours to delete.
        is_ours = STATE_LABEL in claim.metadata.labels and is_owned_state(claim, view.vmi)
        return claim if is_ours and state_claim_of_run(view.vmi) != name else None

    def drop(self, view: MigrationView, claim: PersistentVolumeClaim) -> float | None:
        """Delete a claim of `find_left` unless VM or VMI name it, as the server says now; a number ends the pass.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        meta, name = view.migration.metadata, claim.metadata.name
        try:
            vmi = self._client.get(VirtualMachineInstance, meta.namespace, view.migration.spec.vmi_name)
        except NotFound:
            return self._drop_without_run(view, claim)
        vm = self._find_vm(vmi)
        if not is_owned_state(claim, vmi) or state_claim_of_run(vmi) == name:
            return CAUGHT_UP_SECONDS
        if vm is not None and state_claim_of(vm.metadata) == name:
            if moved_claim_of(vm.metadata, vmi):
                return _NAMED_SECONDS
            # It is in use: what a user deletes is not held for it.
            return _HELD_SECONDS if meta.deletion_timestamp is None else None
        delete_observed(self._client, self._claims, claim)
        return None

    def _drop_without_run(self, view: MigrationView, claim: PersistentVolumeClaim) -> float | None:
        """The run has gone. Its VM has named the claim that counts before that, and would take one of the default name
        that is left for a new one.
        """
        if view.vmi is not None:
            return CAUGHT_UP_SECONDS
        owner = claim.metadata.controller_reference()
        try:
            vm = self._client.get(VirtualMachine, view.migration.metadata.namespace, view.migration.spec.vmi_name)
        except NotFound:
            # It goes with its VM.
            return None
        if owner is not None and owner.uid == vm.metadata.uid and state_claim_of(vm.metadata) != claim.metadata.name:
            delete_observed(self._client, self._claims, claim)
        return None

    def _find_vm(self, vmi: VirtualMachineInstance) -> VirtualMachine | None:
        owner = vmi.metadata.controller_reference()
        if owner is None or owner.kind != VirtualMachine.KIND.kind:
            return None
        try:
            vm = self._client.get(VirtualMachine, vmi.metadata.namespace, owner.name)
        except NotFound:
            return None
        return vm if vm.metadata.uid == owner.uid else None


def _make_claim(vmi: VirtualMachineInstance, before: PersistentVolumeClaim, name: str) -> PersistentVolumeClaim:
    """As the one before, of the same class and size."""
    made = make_state_claim(vmi, before.spec.storage_class_name or "", name)
    marks: Mapping[str, str] = {**made.metadata.annotations, MOVED_FROM: before.metadata.name}
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, annotations=dict(marks)),
        spec=msgspec.structs.replace(made.spec, access_modes=before.spec.access_modes, resources=before.spec.resources),
    )
