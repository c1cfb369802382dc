"""Decides what the controller does about one VM now.

Called by the VM's loop. Pure: the VM, the VMI of its name and the time go in, actions in their order come out. The
order is part of the decision: the VM's status records how a run went before the run's VMI may go. A controller that
dies in between neither forgets a failure nor counts it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from kvedge.controller.vm.claim_move_plan import plan_claim_move
from kvedge.controller.vm.memory_changes import plan_memory
from kvedge.controller.vm.memory_dump_plan import plan_memory_dump
from kvedge.controller.vm.network_changes import plan_interfaces, without_absent
from kvedge.controller.vm.run_strategy_rules import START_REQUEST, RunDecision, RunState, decide_run, open_requests
from kvedge.controller.vm.start_failure_rules import next_start_failure
from kvedge.controller.vm.start_revision import find_superseded_revision, lacks_revision, start_revision
from kvedge.controller.vm.template_changes import plan_backup_word, plan_machine_marks, plan_placement, plan_sockets
from kvedge.controller.vm.typed_vm import UNTYPED, TypedVm
from kvedge.controller.vm.vm_actions import (
    AdoptVmi,
    AnnotateClaim,
    ChangeRun,
    CreateVmi,
    DeleteVmi,
    Hotplug,
    KeepRevision,
    Live,
    NoteMachine,
    PatchVm,
    PatchVmi,
    PatchVmStatus,
    PutBack,
    VmAction,
    VmPlan,
)
from kvedge.controller.vm.vm_status import FAILURE, VmView, next_status, restart_message
from kvedge.controller.vm.vmi_template import is_measured, vmi_from_vm
from kvedge.controller.vm.volume_changes import plan_volumes
from kvedge.kube.patches import merge_difference
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.snapshot_names import LAST_RESTORE, UNPATCHED
from kvedge.resources.disks.state_claims import (
    STATE_CLAIM,
    keeps_state,
    moved_claim_of,
    state_claim_of,
    state_claim_of_run,
)
from kvedge.resources.meta import Condition, owner_reference
from kvedge.resources.moves.crossing import RESTORE_RUN_STRATEGY, WAIT_AS_RECEIVER, describe_hold, is_awaited
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineStatus
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.saved_memory import RESUME_MEMORY

# The finalizer with which a user asks that a VM goes and its VMI stays.
_ORPHAN = "orphan"


_HOTPLUG: Final = Hotplug()
# How often it is looked whether the node of a guest has been upgraded.
_UPGRADE_SECONDS: Final = 30.0


def plan_vm(
    vm: VirtualMachine,
    vmi: VirtualMachineInstance | None,
    now: datetime,
    jitter: float,
    hotplug: Hotplug = _HOTPLUG,
    data_volumes: Sequence[DataVolume] = (),
    blocked: str = "",
    typed: TypedVm = UNTYPED,
) -> VmPlan:
    """Decide what to do.

    Args:
        vm: the VM.
        vmi: the VMI of the same name and namespace, whoever owns it.
        now: the time.
        jitter: between 0 and 1, spreads retries.
        hotplug: which changes may reach a running guest now.
        data_volumes: the existing ones that its volumes name.
        blocked: why it does not start with a DataVolume that it brings along, or "".
        typed: the VM with its instance type and preference, or why nobody knows them.
    """
    if vm.metadata.deletion_timestamp is not None:
        return _plan_deletion(vm, vmi, now)
    if vmi is not None and _is_free(vmi):
        return VmPlan((*_name_state(vm, vmi), AdoptVmi(vmi, _adoption(vm, vmi))))
    failure = Condition(type=FAILURE, status="True", reason="FailedCreate", message=blocked) if blocked else None
    failure = typed.failure or failure
    view = VmView(vm, vmi, None, (), vm.run_strategy, False, failure, data_volumes, hotplug.plugins, typed=typed)
    rollout = hotplug.rollout
    view = replace(view, is_live=rollout.is_live, is_alone=rollout.is_alone, migrates=rollout.migrates)
    return _plan_run(view, now, jitter, hotplug)


def plan_create_failure(vm: VirtualMachine, message: str, now: datetime) -> VmPlan:
    """Record that the VMI could not be created; it counts as no start failure, as nothing started."""
    failure = Condition(type=FAILURE, status="True", reason="FailedCreate", message=message)
    view = VmView(
        vm=vm,
        vmi=None,
        start_failure=vm.status.start_failure,
        requests=tuple(vm.status.state_change_requests),
        observed_strategy=vm.status.run_strategy,
        failure=failure,
    )
    return VmPlan(_status_actions(vm, next_status(view, now)))


def without_generation(action: PatchVmStatus) -> PatchVmStatus | None:
    """The status without `observedGeneration`, so that :func:`plan_vm` asks again for a revision that is not kept.

    None when the action sets nothing else.
    """
    status = {key: value for key, value in action.body["status"].items() if key != "observedGeneration"}
    return PatchVmStatus({"status": status}) if status else None


def is_owned(vmi: VirtualMachineInstance, vm: VirtualMachine) -> bool:
    """Whether the VMI is this very VM's, not one of an earlier VM of the same name."""
    owner = vmi.metadata.controller_reference()
    return owner is not None and owner.uid == vm.metadata.uid


def lock_of(vm: VirtualMachine) -> str:
    """Why a VM does not start: its disks are copied or exchanged, or its guest is another box's. Empty when it may."""
    if vm.status.snapshot_in_progress:
        return f'it starts once snapshot "{vm.status.snapshot_in_progress}" is complete'
    if vm.metadata.annotations.get(LAST_RESTORE, "").startswith(UNPATCHED):
        # It may still have another VM's addresses, and would fight with it.
        return "it starts once the restore that makes it has patched it"
    if vm.status.restore_in_progress:
        return f'it starts once restore "{vm.status.restore_in_progress}" is complete'
    return describe_hold(vm)


def release_body(vmi: VirtualMachineInstance, vm_uid: str) -> JsonObject:
    """A merge patch that removes our finalizer, and the VM as owner, from a VMI."""
    owners = [encode(owner) for owner in vmi.metadata.owner_references if owner.uid != vm_uid]
    return {"metadata": {"finalizers": _remove_finalizer(vmi.metadata.finalizers), "ownerReferences": owners}}


def _plan_run(seen: VmView, now: datetime, jitter: float, hotplug: Hotplug) -> VmPlan:
    vm, vmi = seen.vm, seen.vmi
    own = vmi if vmi is not None and is_owned(vmi, vm) else None
    if own is not None and (arrived := _plan_arrival(vm, own)):
        return VmPlan((PatchVm(arrived),))
    if own is not None and _has_resumed(vm, own):
        return VmPlan((PatchVm({"metadata": {"annotations": {RESUME_MEMORY: None}}}),))
    if own is not None and (claim := moved_claim_of(vm.metadata, own)):
        # Before anything else, as the run may be over: the next one must not start with the TPM of before.
        return VmPlan((PatchVm({"metadata": {"annotations": {STATE_CLAIM: claim}}}),))
    requests = open_requests(vm.status.state_change_requests, own)
    failure = next_start_failure(vm, own, now, jitter)
    decision = decide_run(RunState(vm.run_strategy, vm.status.run_strategy, requests, failure, own, now))
    if own is not None and _waits_in_vain(vm, own):
        return _plan_stop(replace(seen, vmi=own, start_failure=failure, requests=requests), own, now)
    if decision.verdict == "become-always":
        return VmPlan((PatchVm(_become_always(vm)),))
    if decision.ask_to_start:
        requests = (*requests, START_REQUEST)
    move = plan_claim_move(vm, own, hotplug.claims, now)
    if move.put_back and not lock_of(vm):
        return VmPlan((PutBack(move.put_back),))
    view = replace(seen, vmi=own, start_failure=failure, requests=requests, move=move)
    if decision.verdict == "start" and vmi is not None:
        return _plan_blocked(view, vmi, now)
    if decision.verdict == "start" and (reason := lock_of(vm)):
        locked = Condition(type=FAILURE, status="True", reason="FailedCreate", message=reason)
        waiting = replace(view, observed_strategy=vm.status.run_strategy, failure=view.failure or locked)
        return VmPlan(_status_actions(vm, next_status(waiting, now)))
    if decision.verdict == "start" and (seen.failure is not None or move.is_blocked):
        waiting = replace(view, observed_strategy=vm.status.run_strategy)
        return VmPlan(_status_actions(vm, next_status(waiting, now)))
    if decision.verdict == "start":
        return _plan_start(view, decision, now)
    if decision.verdict == "stop" and own is not None:
        return _plan_stop(view, own, now)
    if decision.verdict == "wait":
        # The start under a new strategy is still to come: the status keeps the strategy of before.
        view = replace(view, observed_strategy=vm.status.run_strategy)
    # A user's `kubectl replace` may have removed the finalizer, which keeps the VM until its run has ended.
    kept = () if own is None else _keep_finalizer(vm)
    lost = () if own is None or not lacks_revision(vm, own) else (_keep_revision(vm),)
    carried: list[VmAction] = []
    dump = plan_memory_dump(vm, own, hotplug.dump_claim)
    view = replace(view, memory_dump=dump.request)
    for what, body in (*_live_changes(view, hotplug), *(((Live.MEMORY_DUMP, dump.run),) if dump.run else ())):
        if what in hotplug.refusals:
            view = _with_refusal(view, what, hotplug)
        elif own is not None and not carried:
            # One change in a pass: the next needs the version that this one makes.
            carried = [ChangeRun(own, body, what)]
    absent = without_absent(vm, own)
    if absent:
        carried.append(PatchVm(absent))
    elif dump.template:
        carried.append(PatchVm(dump.template))
    elif not carried and not lost and (marks := plan_machine_marks(vm, own, is_room_said=hotplug.rollout.is_said)):
        if Live.MACHINE in hotplug.refusals:
            view = _with_refusal(view, Live.MACHINE, hotplug)
        else:
            carried.append(NoteMachine(marks))
    if dump.annotation and hotplug.dump_claim is not None:
        carried.append(AnnotateClaim(hotplug.dump_claim, dump.annotation))
    if own is not None and move.body:
        # Alone, as it needs the version that was read; after the VM's status, which says what is incomplete.
        carried = [PatchVmi(own, move.body)]
    view = replace(view, failure=view.failure or move.failure)
    status = _status_actions(vm, next_status(view, now))
    actions: list[VmAction] = [*kept, *lost, *status, *_release_final(own), *carried]
    again = decision.wait_seconds or move.again_after
    if own is not None and own.status.node_name in hotplug.rollout.other_nodes:
        again = min(again or _UPGRADE_SECONDS, _UPGRADE_SECONDS)
    return VmPlan(tuple(actions), again)


def _plan_arrival(vm: VirtualMachine, own: VirtualMachineInstance) -> JsonObject:
    """The guest that a VM has waited for is this box's: a merge patch that gives it the run strategy that it had."""
    state = own.status.migration_state
    if vm.run_strategy != WAIT_AS_RECEIVER or state is None or not state.target_taken_timestamp:
        return {}
    strategy = vm.metadata.annotations.get(RESTORE_RUN_STRATEGY, "Always")
    return {"metadata": {"annotations": {RESTORE_RUN_STRATEGY: None}}, "spec": {"runStrategy": strategy}}


def _has_resumed(vm: VirtualMachine, own: VirtualMachineInstance) -> bool:
    """Whether saved memory is of no use any more: the guest goes on from it, or runs without, and writes its disks."""
    if RESUME_MEMORY not in vm.metadata.annotations:
        return False
    return own.status.phase == "Running" or RESUME_MEMORY not in own.metadata.annotations


def _waits_in_vain(vm: VirtualMachine, own: VirtualMachineInstance) -> bool:
    """Whether a run waits for a guest of another box, and its VM is to start one itself by now."""
    state = own.status.migration_state
    is_open = state is not None and state.is_open
    return is_awaited(own) and not own.is_final and vm.run_strategy != WAIT_AS_RECEIVER and not is_open


def _with_refusal(view: VmView, what: Live, hotplug: Hotplug) -> VmView:
    """With the server's word against a change in the VM's condition, unless something else is there."""
    refused = Condition(type=FAILURE, status="True", reason=what.value, message=hotplug.refusals[what])
    return replace(view, failure=view.failure or refused)


def _live_changes(view: VmView, hotplug: Hotplug) -> Iterator[tuple[Live, JsonObject]]:
    vm, own = view.vm, view.vmi
    if own is None or (own.status.migration_state is not None and own.status.migration_state.is_open):
        # What a guest has must not change while it is made on another node: the changes wait for the end of that.
        return
    volumes = plan_volumes(vm, own) if hotplug.is_on else {}
    interfaces = plan_interfaces(vm, own, hotplug.plugins, is_alone=hotplug.rollout.is_alone)
    backups = {} if own.is_final else plan_backup_word(vm, own)
    for what, body in ((Live.VOLUMES, volumes), (Live.INTERFACES, interfaces), (Live.BACKUPS, backups)):
        if body:
            yield what, body
    # Without its types nobody knows what the VM is by now; a VMI that was adopted was made from something else.
    is_known = view.typed.failure is None and is_measured(vm, own)
    if hotplug.rollout.is_live and is_known and restart_message(view) is None:
        template = view.typed.template_of(vm).spec
        cpus = plan_sockets(template, own, hotplug.rollout.cpu_ratio)
        placement, memory = plan_placement(template, own), plan_memory(template, own)
        is_held = own.status.node_name in hotplug.rollout.other_nodes
        for what, body in ((Live.CPUS, cpus), (Live.PLACEMENT, placement), (Live.MEMORY, memory)):
            if body and not (is_held and what is not Live.PLACEMENT):
                yield what, body


def _plan_start(view: VmView, decision: RunDecision, now: datetime) -> VmPlan:
    vmi = vmi_from_vm(view.vm, decision.paused, view.typed)
    after = replace(view, vmi=vmi, requests=open_requests(view.requests, vmi))
    # The run comes first: a guest does not wait for its revision, and a refused VMI leaves none.
    actions: list[VmAction] = [*_keep_finalizer(view.vm), CreateVmi(vmi), _keep_revision(view.vm)]
    return VmPlan((*actions, *_status_actions(view.vm, next_status(after, now))))


def _keep_revision(vm: VirtualMachine) -> KeepRevision:
    return KeepRevision(start_revision(vm, owner_reference(vm)), find_superseded_revision(vm))


def _plan_blocked(view: VmView, vmi: VirtualMachineInstance, now: datetime) -> VmPlan:
    """Report that a VMI of another owner has the name: the VM starts once that VMI has gone."""
    failure = None
    if vmi.metadata.deletion_timestamp is None:
        owner = vmi.metadata.controller_reference()
        whose = f"belongs to {owner.kind} {owner.name}" if owner is not None else "has no owner"
        message = f"a VirtualMachineInstance {vmi.metadata.name} exists already and {whose} (UID {vmi.metadata.uid})"
        failure = Condition(type=FAILURE, status="True", reason="FailedCreate", message=message)
    blocked = replace(view, observed_strategy=view.vm.status.run_strategy, failure=failure)
    return VmPlan(_status_actions(view.vm, next_status(blocked, now)))


def _plan_stop(view: VmView, own: VirtualMachineInstance, now: datetime) -> VmPlan:
    stopping = replace(view, stopping=True)
    # The status holds the failure and the request to start again: it is written before the run goes.
    actions: list[VmAction] = [*_status_actions(view.vm, next_status(stopping, now)), *_release_final(own)]
    if own.metadata.deletion_timestamp is None:
        actions.append(DeleteVmi(own))
    return VmPlan(tuple(actions))


def _plan_deletion(vm: VirtualMachine, vmi: VirtualMachineInstance | None, now: datetime) -> VmPlan:
    if VM_FINALIZER not in vm.metadata.finalizers:
        return VmPlan()
    let_go = PatchVm({"metadata": {"finalizers": _remove_finalizer(vm.metadata.finalizers)}})
    if vmi is None or not is_owned(vmi, vm):
        return VmPlan((let_go,))
    if _ORPHAN in vm.metadata.finalizers:
        return VmPlan((PatchVmi(vmi, release_body(vmi, vm.metadata.uid)), let_go))
    view = VmView(
        vm, vmi, vm.status.start_failure, tuple(vm.status.state_change_requests), vm.status.run_strategy, stopping=True
    )
    actions: list[VmAction] = [*_status_actions(vm, next_status(view, now)), *_release_final(vmi)]
    if vmi.metadata.deletion_timestamp is None:
        actions.append(DeleteVmi(vmi))
    return VmPlan(tuple(actions))


def _is_free(vmi: VirtualMachineInstance) -> bool:
    return vmi.metadata.controller_reference() is None and vmi.metadata.deletion_timestamp is None


def _name_state(vm: VirtualMachine, vmi: VirtualMachineInstance) -> tuple[PatchVm, ...]:
    """Have the VM name the claim that the run which it adopts has for its TPM and firmware: the next run needs it."""
    claim = state_claim_of_run(vmi)
    if STATE_CLAIM in vm.metadata.annotations or not keeps_state(vmi.spec) or claim == state_claim_of(vm.metadata):
        return ()
    return (PatchVm({"metadata": {"annotations": {STATE_CLAIM: claim}}}),)


def _adoption(vm: VirtualMachine, vmi: VirtualMachineInstance) -> JsonObject:
    owners = [encode(owner) for owner in (*vmi.metadata.owner_references, owner_reference(vm))]
    finalizers = [*_remove_finalizer(vmi.metadata.finalizers), VM_FINALIZER]
    return {"metadata": {"ownerReferences": owners, "finalizers": finalizers}}


def _become_always(vm: VirtualMachine) -> JsonObject:
    return {"spec": {"running": True}} if vm.spec.run_strategy is None else {"spec": {"runStrategy": "Always"}}


def _keep_finalizer(vm: VirtualMachine) -> tuple[PatchVm, ...]:
    """Add our finalizer to a VM that was created while admission was away."""
    if VM_FINALIZER in vm.metadata.finalizers:
        return ()
    return (PatchVm({"metadata": {"finalizers": [*vm.metadata.finalizers, VM_FINALIZER]}}),)


def _release_final(own: VirtualMachineInstance | None) -> tuple[PatchVmi, ...]:
    """Let the VMI of an ended run go: the VM's status has its result by now."""
    if own is None or not own.is_final or VM_FINALIZER not in own.metadata.finalizers:
        return ()
    return (PatchVmi(own, {"metadata": {"finalizers": _remove_finalizer(own.metadata.finalizers)}}),)


def _remove_finalizer(finalizers: Sequence[str]) -> list[str]:
    return [finalizer for finalizer in finalizers if finalizer != VM_FINALIZER]


def _status_actions(vm: VirtualMachine, status: VirtualMachineStatus) -> tuple[PatchVmStatus, ...]:
    body = merge_difference(encode(vm.status), encode(status))
    return (PatchVmStatus({"status": body}),) if body else ()
