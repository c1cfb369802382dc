"""What the KubeVirt object tells of launchers of other releases: the condition LaunchersUpToDate.

Called by `workload_loop`; `controller/kubevirt` writes the condition. Pure. Its text changes when something happens,
and not with the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.controller.guest_moves import Guest
from kvedge.controller.workloads.update_plan import can_update
from kvedge.controller.workloads.update_view import Pause, Rules, UpdatePlan
from kvedge.resources.evacuation import LIVE_MIGRATABLE, is_migratable
from kvedge.resources.meta import Condition, condition
from kvedge.resources.moves.workload_updates import LAUNCHERS_UP_TO_DATE, UPDATES_FAILED
from kvedge.resources.types.vmi import VirtualMachineInstance

_MOST_NAMED: Final = 5
_MOST_NODES: Final = 10


def report_updates(plan: UpdatePlan, rules: Rules) -> Condition:
    """The condition."""
    if not plan.outdated.count:
        return _make("True", "UpToDate", f"All launchers run {rules.version}.")
    reason, text = _find_reason(plan, rules)
    many = plan.outdated.count
    subject = "1 VMI runs a launcher" if many == 1 else f"{many} VMIs run launchers"
    return _make("False", reason, f"{subject} of another release than {rules.version}: {text}")


def _find_reason(plan: UpdatePlan, rules: Rules) -> tuple[str, str]:
    updates, stuck = rules.updates, [guest.vmi for guest in plan.outdated.stuck]
    if not updates.live_migrate and not updates.evict:
        return "NoUpdateMethod", (
            "spec.workloadUpdateStrategy.workloadUpdateMethods names none, so that they keep them until they are"
            f" restarted or migrated ({_name(stuck)})"
        )
    if not can_update(rules):
        return "ControlPlaneNotReady", _explain_versions(rules)
    if plan.pause is not None:
        return UPDATES_FAILED, _explain_pause(plan.pause)
    if stuck and not updates.evict:
        return ("NoOtherNode" if rules.nodes < 2 else "CannotMove"), _explain_stuck(plan.outdated.stuck, rules)
    if plan.wait:
        return "UpdatesWait", f"migrations of {_name([wait.vmi for wait in plan.wait])} failed and are tried again"
    return "Updating", "they are moved" if not stuck else f"they are moved or evicted ({_name(stuck)})"


def _explain_versions(rules: Rules) -> str:
    nodes = rules.other_nodes
    if not nodes:
        return "updates begin once the KubeVirt object is Deployed"
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    return (
        f"updates begin once all nodes run {rules.version}; upgrade {', '.join(nodes[:_MOST_NODES])}{more},"
        " or delete the Node of a host that is gone"
    )


def _explain_pause(pause: Pause) -> str:
    meta, state = pause.last.metadata, pause.last.status.migration_state
    why = f": {state.failure_reason}" if state is not None and state.failure_reason else ""
    return (
        f"the last migrations of {pause.vmis} VMIs have failed, at last that of"
        f" {meta.namespace}/{pause.last.spec.vmi_name}{why}; see the events of migration {meta.name}. No other guest is"
        f" moved before {pause.until}, and then one alone; the others follow once one has moved"
    )


def _explain_stuck(stuck: Sequence[Guest], rules: Rules) -> str:
    vmis = [guest.vmi for guest in stuck]
    if rules.nodes < 2:
        return (
            "LiveMigrate does nothing here, as there is no other node; restart them when it suits you"
            f" ({_name(vmis)}), or add Evict to workloadUpdateMethods"
        )
    if not rules.updates.live_migrate:
        return f"LiveMigrate is not among workloadUpdateMethods ({_name(vmis)})"
    return f"some cannot move: restart them, or add Evict to workloadUpdateMethods ({_name(vmis)}{_why(vmis)})"


def _why(vmis: Sequence[VirtualMachineInstance]) -> str:
    """What keeps the first of them."""
    found = next((vmi for vmi in vmis if not is_migratable(vmi)), None)
    told = None if found is None else condition(found.status.conditions, LIVE_MIGRATABLE)
    return "" if told is None or not told.message else f"; of the first: {told.message}"


def _name(vmis: Sequence[VirtualMachineInstance]) -> str:
    names = [f"{vmi.metadata.namespace}/{vmi.metadata.name}" for vmi in vmis[:_MOST_NAMED]]
    more = [f"{len(vmis) - _MOST_NAMED} more"] if len(vmis) > _MOST_NAMED else []
    return ", ".join([*names, *more])


def _make(status: str, reason: str, message: str) -> Condition:
    return Condition(type=LAUNCHERS_UP_TO_DATE, status=status, reason=reason, message=message)
