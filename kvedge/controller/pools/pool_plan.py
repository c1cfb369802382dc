"""Decides what the controller does about one VirtualMachinePool now.

Called by the pool's loop. Pure: the pool, its VMs and VMIs and its revisions go in, steps come out, in the order in
which they are to be done. A pool first has its number, then VMs follow its template, then guests are restarted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from kvedge.controller.pools.pool_actions import (
    CreateVm,
    DeleteVm,
    Detach,
    KeepRevision,
    LetGo,
    PoolAction,
    PoolPlan,
    Prune,
    Relabel,
    Restart,
    UpdateVm,
)
from kvedge.controller.pools.pool_choice import chosen_by, in_order
from kvedge.controller.pools.pool_template import template_of
from kvedge.controller.scaling_selector import find_selector_fault
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.label_selectors import LabelSelector, selector_of
from kvedge.resources.meta import condition
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.scaling.pools import (
    POOL_FINALIZER,
    REVISION_LABEL,
    PoolAutohealing,
    VirtualMachinePool,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.resources.values.whole_numbers import whole_number
from kvedge.runtime.clock import parse_rfc3339

# The collector's, on an owner that goes after its dependents.
_FOREGROUND: Final = "foregroundDeletion"
# What one plan does, before the next one looks again; KubeVirt's makes ten times as many.
MOST_AT_ONCE: Final = 25
# As in KubeVirt.
_START_FAILURES: Final = 3
_FAILING_SECONDS: Final = 300.0
# How long a change waits for guests that are not ready yet.
AGAIN_SECONDS: Final = 3.0
_FAILING: Final = frozenset(
    (
        *("CrashLoopBackOff", "ErrorUnschedulable", "DataVolumeError"),
        *("ErrorPvcNotFound", "ErrImagePull", "ImagePullBackOff"),
    )
)


class PoolView(Struct, frozen=True):
    """A pool, the VMs of its namespace that it owns, their own VMIs by name, and its revisions by name."""

    pool: VirtualMachinePool
    vms: Sequence[VirtualMachine] = ()
    vmis: Mapping[str, VirtualMachineInstance] = field(default_factory=dict)
    revisions: Mapping[str, ControllerRevision] = field(default_factory=dict)
    # UIDs of VMs of which the server has just refused something: others do not wait for them.
    refused: Set[str] = frozenset()
    # Whether a VM may be made now: one that was refused has to wait.
    may_create: bool = True

    def open(self, vms: Iterable[VirtualMachine]) -> list[VirtualMachine]:
        """Those of which nothing has been refused."""
        return [vm for vm in vms if vm.metadata.uid not in self.refused]


def selector_in_use(pool: VirtualMachinePool) -> LabelSelector | None:
    """The pool's selector; None where nothing can be done by it, for which :func:`selector_fault` has the words."""
    selector = pool.spec.selector
    return None if selector is None or selector_fault(pool) else selector_of(selector)


def selector_fault(pool: VirtualMachinePool) -> str:
    """Why the pool is left alone, which admission refuses, too; empty for one that is kept."""
    template = pool.spec.virtual_machine_template
    labels = None if template is None else template.metadata.labels
    return find_selector_fault(pool.spec.selector, "virtualMachineTemplate", labels, (REVISION_LABEL,))


def revision_name(pool: VirtualMachinePool) -> str:
    """The name under which the pool's spec of this generation is kept."""
    return f"{pool.metadata.name}-{pool.metadata.generation}"


def plan_pool(view: PoolView, selector: LabelSelector, is_taken: Callable[[str], bool], now: datetime) -> PoolPlan:
    """Decide what to do; `is_taken` says whether a VM of that name is there, whosever it is."""
    pool = view.pool
    strays = [vm for vm in view.open(view.vms) if not selector.matches(vm.metadata.labels)]
    if strays:
        return PoolPlan(tuple(Detach(vm) for vm in strays[:MOST_AT_ONCE]))
    going = [vm for vm in view.vms if vm.metadata.deletion_timestamp is not None]
    held = [vm for vm in view.open(going) if POOL_FINALIZER in vm.metadata.finalizers]
    if leaving := [LetGo(vm, _keeps_disks(pool, vm)) for vm in held]:
        return PoolPlan(tuple(leaving[:MOST_AT_ONCE]))
    if pool.spec.paused:
        return PoolPlan()
    healed, heal_again = _plan_healing(view, now)
    if healed:
        return PoolPlan(tuple(healed[:MOST_AT_ONCE]))
    is_over = len(view.vms) > pool.replicas and not _leaves_surplus(pool)
    if is_over or (len(view.vms) < pool.replicas and view.may_create):
        numbered = _plan_number(view, going, is_taken)
        if numbered or not view.refused:
            return PoolPlan(numbered, heal_again)
    updated, again = _plan_update(view, going)
    waits = [each for each in (again, heal_again) if each is not None]
    if updated or going:
        return PoolPlan(updated, min(waits, default=None))
    return PoolPlan(_plan_pruning(view), min(waits, default=None))


def keeps_state(pool: VirtualMachinePool) -> bool:
    """Whether the DataVolumes of a VM that goes stay."""
    strategy = pool.spec.scale_in_strategy
    chosen = None if strategy is None else strategy.opportunistic or strategy.proactive
    return chosen is not None and chosen.state_preservation in ("Offline", "Online")


def _leaves_surplus(pool: VirtualMachinePool) -> bool:
    """Whether it is the user who deletes VMs that are too many; those follow the template as the others do."""
    strategy = pool.spec.scale_in_strategy
    return strategy is not None and (strategy.unmanaged is not None or strategy.opportunistic is not None)


def _keeps_disks(pool: VirtualMachinePool, vm: VirtualMachine) -> bool:
    """Whether the DataVolumes of this VM, which is being deleted, stay; in Foreground they go before it."""
    return keeps_state(pool) and _FOREGROUND not in vm.metadata.finalizers


def most_unavailable(pool: VirtualMachinePool) -> int:
    """How many VMs may be without a ready guest while a change is carried out."""
    limit = pool.spec.max_unavailable
    if isinstance(limit, str):
        share = whole_number(limit.removesuffix("%"))
        return max(1, pool.replicas * (100 if share is None else share) // 100)
    return max(1, pool.replicas if limit is None else limit)


def _plan_number(
    view: PoolView, going: Sequence[VirtualMachine], is_taken: Callable[[str], bool]
) -> tuple[PoolAction, ...]:
    pool, strategy = view.pool, view.pool.spec.scale_in_strategy
    missing = pool.replicas - len(view.vms)
    if missing > 0:
        revision, number = revision_name(pool), 0
        numbers: list[int] = []
        while len(numbers) < min(missing, MOST_AT_ONCE):
            if not is_taken(f"{pool.metadata.name}-{number}"):
                numbers.append(number)
            number += 1
        return (*_keep_revision(view), *(CreateVm(each, revision) for each in numbers))
    policy = None if strategy is None or strategy.proactive is None else strategy.proactive.selection_policy
    there = [vm for vm in view.open(view.vms) if vm.metadata.deletion_timestamp is None]
    too_many = min(-missing - len(going), MOST_AT_ONCE)
    chosen = in_order(there, policy, pool.metadata.generation)[: max(0, too_many)]
    return tuple(DeleteVm(vm, keeps_state(pool)) for vm in chosen)


def _plan_healing(view: PoolView, now: datetime) -> tuple[list[PoolAction], float | None]:
    healing = view.pool.spec.autohealing
    if healing is None:
        return [], None
    found: list[PoolAction] = []
    again: list[float] = []
    for vm in view.open(view.vms):
        wait = _seconds_to_heal(vm, view.vmis.get(vm.metadata.name), healing, now)
        if wait is not None and vm.metadata.deletion_timestamp is None:
            if wait <= 0:
                found.append(DeleteVm(vm, keeps_state(view.pool), "heal"))
            else:
                again.append(wait)
    return found, min(again, default=None)


def _seconds_to_heal(
    vm: VirtualMachine, vmi: VirtualMachineInstance | None, healing: PoolAutohealing, now: datetime
) -> float | None:
    """In how many seconds a VM has failed for long enough; None for one that does not fail."""
    threshold = healing.start_up_failure_threshold
    failures = 0 if vm.status.start_failure is None else vm.status.start_failure.consecutive_fail_count
    if failures >= max(1, _START_FAILURES if threshold is None else threshold):
        return 0.0
    ready = condition(vm.status.conditions, "Ready")
    if vm.status.printable_status not in _FAILING or ready is None or ready.status != "False":
        return None
    longest = _FAILING_SECONDS
    with contextlib.suppress(DurationError):
        longest = parse_duration(healing.min_failing_to_start_duration or f"{_FAILING_SECONDS}s")
    try:
        since = parse_rfc3339(ready.last_transition_time or ready.last_probe_time or "")
        if vmi is not None and vmi.metadata.creation_timestamp:
            # A stopped VM is not ready either: that time does not count.
            since = max(since, parse_rfc3339(vmi.metadata.creation_timestamp))
    except ValueError:
        return longest
    return longest - (now - since).total_seconds()


def _plan_update(view: PoolView, going: Sequence[VirtualMachine]) -> tuple[tuple[PoolAction, ...], float | None]:
    pool, strategy = view.pool, view.pool.spec.update_strategy
    if strategy is not None and strategy.unmanaged is not None:
        return (), None
    wanted = encode(pool.spec.virtual_machine_template) if pool.spec.virtual_machine_template is not None else {}
    templates = {name: template_of(revision.data) for name, revision in view.revisions.items()}
    ended = {vm.metadata.uid for vm in going}
    there = [vm for vm in view.open(view.vms) if vm.metadata.uid not in ended]
    policy = None if strategy is None or strategy.proactive is None else strategy.proactive.selection_policy
    ordered = in_order(chosen_by(there, policy), policy, pool.metadata.generation)
    outdated = [vm for vm in ordered if _is_outdated(vm, templates, wanted)]
    changes: list[PoolAction] = []
    if outdated:
        changes += _keep_revision(view)
        for vm in outdated[:MOST_AT_ONCE]:
            changes.append(UpdateVm(vm, templates.get(vm.metadata.labels.get(REVISION_LABEL, ""))))
        return tuple(changes), None
    if strategy is not None and strategy.opportunistic is not None:
        return (), None
    return _plan_restarts(view, ordered, templates)


def _is_outdated(vm: VirtualMachine, templates: Mapping[str, JsonObject], wanted: JsonObject) -> bool:
    """Whether a VM is of another template, or its guests would say that they are: those would restart for ever."""
    revision = vm.metadata.labels.get(REVISION_LABEL, "")
    theirs = {} if vm.spec.template is None else vm.spec.template.metadata.labels
    return templates.get(revision) != wanted or theirs.get(REVISION_LABEL) != revision


def _plan_restarts(
    view: PoolView, vms: Sequence[VirtualMachine], templates: Mapping[str, JsonObject]
) -> tuple[tuple[PoolAction, ...], float | None]:
    """Restart guests of older revisions: those that are not ready at once, of the others as many as may be missing."""
    left = most_unavailable(view.pool) - sum(1 for vm in view.vms if not _is_available(view.vmis.get(vm.metadata.name)))
    actions: list[PoolAction] = []
    waits = False
    for vm in vms:
        vmi = view.vmis.get(vm.metadata.name)
        step = None if vmi is None else _step_for(vm, vmi, templates)
        if step is None:
            continue
        if isinstance(step, Relabel) or not _is_available(vmi):
            actions.append(step)
        elif left > 0:
            actions.append(step)
            left -= 1
        else:
            waits = True
    return tuple(actions[:MOST_AT_ONCE]), AGAIN_SECONDS if waits else None


def _step_for(
    vm: VirtualMachine, vmi: VirtualMachineInstance, templates: Mapping[str, JsonObject]
) -> Restart | Relabel | DeleteVm | None:
    """What brings a guest to the revision of its VM."""
    wanted, there = vm.metadata.labels.get(REVISION_LABEL, ""), vmi.metadata.labels.get(REVISION_LABEL, "")
    if vmi.metadata.deletion_timestamp is not None or wanted == there or wanted not in templates:
        return None
    if there not in templates:
        return Restart(vmi)
    new, old = (templates[name].get("spec") or {} for name in (wanted, there))
    if new.get("dataVolumeTemplates") != old.get("dataVolumeTemplates"):
        return DeleteVm(vm, keeps=False, why="update")
    return Restart(vmi) if new.get("template") != old.get("template") else Relabel(vmi, wanted)


def _is_available(vmi: VirtualMachineInstance | None) -> bool:
    if vmi is None or vmi.metadata.deletion_timestamp is not None or vmi.status.phase != "Running":
        return False
    ready = condition(vmi.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


def _keep_revision(view: PoolView) -> tuple[KeepRevision, ...]:
    return () if revision_name(view.pool) in view.revisions else (KeepRevision(),)


def _plan_pruning(view: PoolView) -> tuple[PoolAction, ...]:
    used = {vm.metadata.labels.get(REVISION_LABEL) for vm in view.vms}
    used |= {vmi.metadata.labels.get(REVISION_LABEL) for vmi in view.vmis.values()}
    return tuple(Prune(revision) for name, revision in sorted(view.revisions.items()) if name not in used)
