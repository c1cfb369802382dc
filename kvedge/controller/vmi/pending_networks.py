"""Whether a running guest waits for its Pod to join a network or leave one, or for another Pod, and what is told of it.

Called by the VMI's plan. Pure. Where nobody attaches Pods that run (a thin Multus) the wait has no end but another Pod:
this condition asks for a migration then, as KubeVirt's does. `workloads` makes it where the KubeVirt object allows it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.controller.kubevirt.condition_rules import with_condition, without_conditions
from kvedge.controller.vmi.switched_networks import NOWHERE_ELSE, Elsewhere
from kvedge.resources.meta import Condition, condition
from kvedge.resources.names import MIGRATION_REQUIRED
from kvedge.resources.types.pod_networks import absent_interfaces, is_there, lan_interfaces
from kvedge.resources.types.vmi import (
    DOMAIN_SOURCE,
    MULTUS_STATUS,
    VirtualMachineInstance,
    VirtualMachineInstanceStatus,
)
from kvedge.runtime.clock import parse_rfc3339

# KubeVirt's.
PATIENCE_SECONDS: Final = 15.0
_PENDING: Final = "AutoMigrationPending"
_DUE: Final = "AutoMigrationDueToLiveUpdate"
_MOST_NAMED: Final = 4


def with_pending_networks(
    vmi: VirtualMachineInstance,
    status: VirtualMachineInstanceStatus,
    now: datetime,
    elsewhere: Elsewhere = NOWHERE_ELSE,
) -> tuple[list[Condition], float | None]:
    """The conditions of `status`, and in how many seconds to look again; `vmi` is the VMI with its interfaces.

    Nobody is waited for where a Pod is on another network (`elsewhere`) and its NICs do not follow.
    """
    waits = _find_waits(vmi, status, elsewhere) if vmi.status.phase == "Running" else []
    if not waits:
        return without_conditions(status.conditions, {MIGRATION_REQUIRED}), None
    known = condition(status.conditions, MIGRATION_REQUIRED)
    waited = 0.0
    if known is not None and known.last_transition_time:
        waited = (now - parse_rfc3339(known.last_transition_time)).total_seconds()
    is_due = bool(elsewhere.wanted) and not elsewhere.follows
    is_due |= known is not None and (known.status == "True" or waited >= PATIENCE_SECONDS)
    text = "; ".join(waits[:_MOST_NAMED])
    if is_due:
        text = (
            f"{text}: its events say why. Another Pod is made by a migration, which LiveMigrate in"
            " workloadUpdateStrategy of the KubeVirt object lets happen by itself, or by a restart of the VM"
        )
    made = Condition(
        type=MIGRATION_REQUIRED,
        status="True" if is_due else "False",
        reason=_DUE if is_due else _PENDING,
        message=text,
    )
    return with_condition(status.conditions, made, now), None if is_due else max(0.1, PATIENCE_SECONDS - waited)


def _find_waits(vmi: VirtualMachineInstance, status: VirtualMachineInstanceStatus, elsewhere: Elsewhere) -> list[str]:
    sources = {row.name: row.sources for row in status.interfaces}
    coming = [item.name for _, item, _ in lan_interfaces(vmi) if not is_there(status, item.name)]
    left = [
        item.name
        for _, item in absent_interfaces(vmi)
        if MULTUS_STATUS in sources.get(item.name, []) and DOMAIN_SOURCE not in sources[item.name]
    ]
    return [
        *(f"the Pod has not joined the network of interface {name}" for name in coming),
        *(f"the Pod has not left the network of interface {name}" for name in left),
        *(
            f"the Pod is on another network than {wanted}, that of interface {name}"
            for name, wanted in elsewhere.wanted
        ),
    ]
