"""The CPUs that a guest has, and KubeVirt's condition of those that it is still getting.

Called by the VMI's status. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.meta import Condition
from kvedge.resources.types.vmi import CpuTopology, VirtualMachineInstance
from kvedge.resources.vmi_facts import UnreadableCpus, topology_of, vcpu_count
from kvedge.rpc.launcher_pb2 import DomainStatus

HOT_VCPU_CHANGE: Final = "HotVCPUChange"
# The reason of the condition while something is in the way.
_FAILED: Final = "HotplugCPUsNotSynchronized"


def current_topology(vmi: VirtualMachineInstance, status: DomainStatus) -> CpuTopology | None:
    """What the guest has; as before when its launcher does not tell, or when those are no whole sockets."""
    try:
        wanted = topology_of(vmi.spec.domain)
    except UnreadableCpus:
        return vmi.status.current_cpu_topology
    sockets, rest = divmod(status.vcpus, wanted.cores * wanted.threads)
    if not sockets or rest:
        return vmi.status.current_cpu_topology
    return CpuTopology(cores=wanted.cores, sockets=sockets, threads=wanted.threads)


def vcpu_condition(vmi: VirtualMachineInstance, status: DomainStatus) -> Condition | None:
    """KubeVirt's HotVCPUChange: True as long as the guest has not all of its sockets; None when it has."""
    if status.cpu_trouble:
        return Condition(type=HOT_VCPU_CHANGE, status="True", reason=_FAILED, message=status.cpu_trouble)
    has = current_topology(vmi, status)
    if not status.vcpus or has is None or status.vcpus >= vcpu_count(vmi.spec.domain):
        return None
    return Condition(type=HOT_VCPU_CHANGE, status="True")
