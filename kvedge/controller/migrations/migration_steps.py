"""Does what the plan of a migration says, each write against what was planned on.

Held by `migration_loop`, whose one worker uses it. The Pod that a guest comes to is ended only while the server says
that it is not handed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kvedge.controller.migrations.attachment_creation import AttachmentCreation
from kvedge.controller.migrations.coming_state import CAUGHT_UP_SECONDS
from kvedge.controller.migrations.crossing_plan import LOST_BY_WORD
from kvedge.controller.migrations.migration_status import with_migration_phase
from kvedge.controller.migrations.migration_view import (
    ConfirmFree,
    CreateAttachments,
    CreateTarget,
    DeclareLost,
    DeleteEnded,
    DeleteMigration,
    DeleteTarget,
    DropState,
    FreeVm,
    HaltVm,
    HandOver,
    MigrationAction,
    MigrationPlan,
    MigrationView,
    PatchStatus,
    Release,
    RequestAbort,
    SendAway,
)
from kvedge.controller.migrations.policy_choice import choose_policy, freeze, needs_namespace
from kvedge.controller.migrations.target_creation import MigrationSources, TargetCreation
from kvedge.controller.scaling_status import status_body
from kvedge.controller.vmi.vmi_view import patch_vmi
from kvedge.kube.errors import NotFound
from kvedge.kube.observed_delete import delete_observed
from kvedge.kube.patches import at_version
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.moves.crossing import MOVED_TO, MOVES_TO
from kvedge.resources.names import MIGRATION_TARGET_NODE
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.migrations import (
    MIGRATION_FINALIZER,
    MIGRATION_JOB_UID,
    MigrationPolicy,
    MigrationState,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationStatus,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus
from kvedge.runtime.clock import rfc3339

CLAIMS_ARE_LOST: Final = (
    f"the CRD {VirtualMachineInstance.KIND.qualified_plural} of this cluster is of an older release, and does not keep"
    " the names of the claims with the state of TPM and UEFI firmware: apply k3s/crds of this release, and migrate"
    " again"
)


class MigrationSteps:
    """The one way of the loop's worker to write."""

    def __init__(self, sources: MigrationSources) -> None:
        self._sources = sources
        self._client = sources.client
        self._events = sources.events
        self._creation = TargetCreation(sources, self._write)
        self.state = self._creation.state
        self._attachments = AttachmentCreation(sources)

    def carry_out(self, view: MigrationView, plan: MigrationPlan) -> float | None:
        """Do all that a plan says, and tell of it; a number ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        for action in plan.actions:
            wait = self._do(view, action)
            if wait is not None:
                return wait
        self.tell(view, plan)
        return None

    def tell(self, view: MigrationView, plan: MigrationPlan) -> None:
        """Record what a plan tells."""
        for told in plan.told:
            about = view.vmi if told.is_of_vmi and view.vmi is not None else view.migration
            self._events.record(about, told.type, told.reason, told.message)

    def forget(self, uid: str) -> None:
        """A migration is gone."""
        self._creation.forget(uid)
        self._attachments.forget(uid)

    def end_orphan(self, pod: Pod, name: str) -> None:
        """End the Pod of a migration that is not there any more and was not handed over, as the server says now.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        uid, namespace = pod.metadata.labels.get(MIGRATION_JOB_UID, ""), pod.metadata.namespace
        try:
            if self._client.get(VirtualMachineInstanceMigration, namespace, name).job == uid:
                return
        except NotFound:
            pass
        owner = pod.metadata.controller_reference()
        if owner is not None and not self._is_handed_over(namespace, owner.name, uid):
            delete_observed(self._client, self._sources.pods, pod)

    def cancel_orphan(self, vmi: VirtualMachineInstance, state: MigrationState) -> None:
        """Ask for the guest to stay whose migration is not there any more, as the server says now.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        uid = state.migration_uid
        migrations = self._client.list(VirtualMachineInstanceMigration, vmi.metadata.namespace)
        if any(each.job == uid for each in migrations):
            return
        self._ask_to_stay(vmi, state)
        text = f"migration uid {uid} was removed while it was under way: it is canceled"
        self._events.record(vmi, "Warning", "FailedMigration", text)

    def _do(self, view: MigrationView, action: MigrationAction) -> float | None:
        """Do one action; a number ends the pass.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        meta = view.migration.metadata
        match action:
            case CreateTarget():
                return self._creation.create(view)
            case CreateAttachments(pods):
                return self._attachments.create(view.migration, pods)
            case ConfirmFree():
                return (
                    CAUGHT_UP_SECONDS
                    if self._is_handed_over(meta.namespace, view.migration.spec.vmi_name, view.migration.job)
                    else None
                )
            case DeleteTarget(pod):
                if self._is_handed_over(meta.namespace, view.migration.spec.vmi_name, view.migration.job):
                    return CAUGHT_UP_SECONDS
                delete_observed(self._client, self._sources.pods, pod)
            case DeleteEnded(pod):
                delete_observed(self._client, self._sources.pods, pod)
            case HandOver():
                self._hand_over(view, action)
            case SendAway(state, place):
                self._send_away(view, state, place)
            case DeclareLost():
                self._declare_lost(view)
            case FreeVm():
                self._mark_vm(view, {MOVES_TO: None})
            case HaltVm(place):
                self._mark_vm(view, {MOVES_TO: None, MOVED_TO: place}, {"runStrategy": "Halted", "running": None})
            case RequestAbort():
                self._request_abort(view)
            case PatchStatus(status):
                self._write(view.migration, status)
            case Release():
                kept = [name for name in meta.finalizers if name != MIGRATION_FINALIZER]
                patch = at_version({"metadata": {"finalizers": kept}}, meta.resource_version)
                try:
                    left = self._client.patch(VirtualMachineInstanceMigration, meta.namespace, meta.name, patch)
                except NotFound:
                    return CAUGHT_UP_SECONDS
                if not left.metadata.is_left:
                    return CAUGHT_UP_SECONDS
                self._sources.migrations.observe(left)
            case DropState(claim):
                return self.state.drop(view, claim)
            case DeleteMigration():
                delete_observed(self._client, self._sources.migrations, view.migration)
                return CAUGHT_UP_SECONDS
        return None

    def _is_handed_over(self, namespace: str, name: str, uid: str) -> bool:
        """Whether the server's VMI of that name says so: its handlers may need the Pod then."""
        try:
            live = self._client.get(VirtualMachineInstance, namespace, name)
        except NotFound:
            return False
        self._sources.vmis.observe(live)
        state = live.status.migration_state
        return state is not None and state.migration_uid == uid

    def _hand_over(self, view: MigrationView, action: HandOver) -> None:
        vmi, pod = view.vmi, action.target
        assert vmi is not None
        policies = self._sources.policies.list()
        policy = choose_policy(policies, vmi.metadata.labels, self._find_labels(policies, vmi))
        state = msgspec.structs.replace(
            action.state,
            migration_policy_name=None if policy is None else policy.metadata.name,
            migration_configuration=freeze(self._sources.limits(), policy),
        )
        active = {**vmi.status.active_pods, pod.metadata.uid: pod.spec.node_name}
        status = msgspec.structs.replace(vmi.status, migration_state=state, active_pods=active)
        labels = {"metadata": {"labels": {MIGRATION_TARGET_NODE: pod.spec.node_name}}}
        if state.moves_state and not self._keeps_claims(vmi, state):
            self._fail(view, CLAIMS_ARE_LOST)
            return
        self._patch_vmi(vmi, status, labels)
        text = "Migration target pod is ready for preparation by virt-handler."
        self._events.record(view.migration, "Normal", "SuccessfulHandOver", text)

    def _keeps_claims(self, vmi: VirtualMachineInstance, state: MigrationState) -> bool:
        """Whether the server's CRD has what VMIs say of the claims of TPM and firmware: an older one drops it unseen,
        and the VM would start with what its guest knew before it moved. Nothing is written.
        """
        tried = msgspec.structs.replace(state, target_taken_timestamp=rfc3339(self._sources.clock.now()))
        body = {"status": {"migrationState": encode(tried)}}
        meta = vmi.metadata
        answer = self._client.try_patch(
            VirtualMachineInstance, meta.namespace, meta.name, at_version(body, meta.resource_version)
        )
        found = answer.status.migration_state or MigrationState()
        return _words_of_claims(found) == _words_of_claims(tried)

    def _fail(self, view: MigrationView, why: str) -> None:
        """The migration has failed before its hand-over; its Pod is ended in the next pass."""
        migration = view.migration
        self._write(migration, with_migration_phase(migration.status, "Failed", self._sources.clock.now()))
        self._events.record(migration, "Warning", "FailedMigration", why)

    def _send_away(self, view: MigrationView, state: MigrationState, place: str) -> None:
        """The VM is held first: from then on nothing starts a second guest, whatever becomes of the VMI."""
        vmi = view.vmi
        assert vmi is not None
        self._mark_vm(view, {MOVES_TO: place})
        policies = self._sources.policies.list()
        policy = choose_policy(policies, vmi.metadata.labels, self._find_labels(policies, vmi))
        decided = msgspec.structs.replace(
            state,
            migration_policy_name=None if policy is None else policy.metadata.name,
            migration_configuration=freeze(self._sources.limits(), policy),
        )
        self._patch_vmi(vmi, msgspec.structs.replace(vmi.status, migration_state=decided))
        text = f"The guest is to leave for {place}."
        self._events.record(view.migration, "Normal", "SuccessfulHandOver", text)

    def _declare_lost(self, view: MigrationView) -> None:
        vmi, state = view.vmi, view.state
        assert vmi is not None
        assert state is not None
        lost = msgspec.structs.replace(
            state,
            failed=True,
            completed=True,
            end_timestamp=rfc3339(self._sources.clock.now()),
            failure_reason=LOST_BY_WORD,
        )
        self._patch_vmi(vmi, msgspec.structs.replace(vmi.status, migration_state=lost))

    def _mark_vm(self, view: MigrationView, marks: JsonObject, spec: JsonObject | None = None) -> None:
        """Change the annotations of the VMI's own VM, and its run strategy; nothing happens where that is gone.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        meta = view.migration.metadata
        owner = None if view.vmi is None else view.vmi.metadata.controller_reference()
        try:
            vm = self._client.get(VirtualMachine, meta.namespace, view.migration.spec.vmi_name)
        except NotFound:
            return
        found = vm.metadata.annotations
        is_its = owner is not None and owner.uid == vm.metadata.uid
        if not is_its or (spec is None and all(found.get(name) == value for name, value in marks.items())):
            return
        body: JsonObject = {"metadata": {"annotations": marks}, **({"spec": spec} if spec is not None else {})}
        self._client.patch(
            VirtualMachine, meta.namespace, vm.metadata.name, at_version(body, vm.metadata.resource_version)
        )

    def _find_labels(self, policies: Sequence[MigrationPolicy], vmi: VirtualMachineInstance) -> dict[str, str]:
        if not needs_namespace(policies):
            return {}
        return self._client.get(Namespace, "", vmi.metadata.namespace).metadata.labels

    def _request_abort(self, view: MigrationView) -> None:
        vmi, state = view.vmi, view.state
        if vmi is not None and state is not None:
            self._ask_to_stay(vmi, state)

    def _ask_to_stay(self, vmi: VirtualMachineInstance, state: MigrationState) -> None:
        asked = msgspec.structs.replace(state, abort_requested=True)
        self._patch_vmi(vmi, msgspec.structs.replace(vmi.status, migration_state=asked))

    def _patch_vmi(
        self,
        vmi: VirtualMachineInstance,
        status: VirtualMachineInstanceStatus,
        more: JsonObject | None = None,
    ) -> None:
        meta = vmi.metadata
        for change in patch_vmi(vmi, status, more):
            patch = at_version(change.body, meta.resource_version)
            self._sources.vmis.observe(self._client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch))

    def _write(self, migration: VirtualMachineInstanceMigration, status: VirtualMachineInstanceMigrationStatus) -> None:
        meta = migration.metadata
        body = status_body(migration, status)
        if not body:
            return
        patch = at_version(body, meta.resource_version)
        try:
            written = self._client.patch(VirtualMachineInstanceMigration, meta.namespace, meta.name, patch, "status")
        except NotFound:
            return
        self._sources.migrations.observe(written)


def _words_of_claims(state: MigrationState) -> tuple[str, str, bool]:
    return (
        state.source_persistent_state_pvc_name,
        state.target_persistent_state_pvc_name,
        state.target_taken_timestamp is not None,
    )
