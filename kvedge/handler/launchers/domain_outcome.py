"""What the end of a domain means for its VMI (KubeVirt's table of phases).

Called by the sync plan. Pure.
"""

from __future__ import annotations

from kvedge.resources.phases import Phase
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import grace_seconds
from kvedge.rpc.launcher_pb2 import (
    DOMAIN_REASON_DESTROYED,
    DOMAIN_REASON_MIGRATED,
    DOMAIN_REASON_SHUTDOWN,
    DOMAIN_STATE_CRASHED,
    DOMAIN_STATE_PAUSED,
    DOMAIN_STATE_RUNNING,
    DOMAIN_STATE_SHUTOFF,
    DOMAIN_STATE_SHUTTING_DOWN,
    DomainStatus,
)

ALIVE = frozenset({DOMAIN_STATE_RUNNING, DOMAIN_STATE_PAUSED, DOMAIN_STATE_SHUTTING_DOWN})
ENDED = frozenset({DOMAIN_STATE_SHUTOFF, DOMAIN_STATE_CRASHED})


def phase_of(vmi: VirtualMachineInstance, status: DomainStatus) -> Phase:
    """The phase that this domain status calls for; the present one when it calls for none."""
    if status.state in ALIVE:
        return "Running"
    if status.state == DOMAIN_STATE_CRASHED:
        return "Failed"
    if status.state == DOMAIN_STATE_SHUTOFF:
        return _phase_of_shutoff(vmi, status)
    return vmi.status.phase


def _phase_of_shutoff(vmi: VirtualMachineInstance, status: DomainStatus) -> Phase:
    if status.reason == DOMAIN_REASON_SHUTDOWN:
        return "Succeeded"
    if status.reason == DOMAIN_REASON_MIGRATED:
        # The guest goes on somewhere else: whoever has it there says what becomes of it.
        return vmi.status.phase
    if status.reason == DOMAIN_REASON_DESTROYED:
        # Killed although it was asked nicely and had time: that is a failure. Killed because nothing else was
        # possible or wanted is not.
        return "Failed" if _acpi(vmi) and grace_seconds(vmi) != 0 else "Succeeded"
    return "Failed"


def _acpi(vmi: VirtualMachineInstance) -> bool:
    features = vmi.spec.domain.features
    return features is None or features.acpi.enabled is not False
