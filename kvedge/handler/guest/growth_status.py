"""The CPUs and the memory that a guest has, and KubeVirt's conditions of those that it is still getting.

Called by the VMI's status. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.meta import Condition
from kvedge.resources.moves.pod_room import find_room, lacks_memory, lacks_vcpus
from kvedge.resources.types.vmi import CpuTopology, MemoryStatus, PodRoom, VirtualMachineInstance
from kvedge.resources.values.quantities import format_bytes, parse_bytes
from kvedge.resources.vmi_facts import HOT_MEMORY_CHANGE, UnreadableCpus, guest_memory_bytes, topology_of, vcpu_count
from kvedge.rpc.launcher_pb2 import DomainStatus

HOT_VCPU_CHANGE: Final = "HotVCPUChange"
# The reason of the condition while something is in the way.
_FAILED: Final = "HotplugCPUsNotSynchronized"
_MEMORY_FAILED: Final = "HotplugMemoryNotSynchronized"


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
    return _waiting(HOT_VCPU_CHANGE, find_room(vmi) if lacks_vcpus(vmi) else None)


def current_memory(vmi: VirtualMachineInstance, status: DomainStatus) -> MemoryStatus | None:
    """What the guest started with, is asked to have and has; what the VMI says when its launcher does not tell."""
    memory = vmi.spec.domain.memory
    if memory is None or memory.guest is None:
        return vmi.status.memory
    overhead = vmi.status.memory.memory_overhead if vmi.status.memory else None
    if memory.max_guest is None or not status.memory_boot_bytes:
        guest = format_bytes(parse_bytes(memory.guest))
        return MemoryStatus(guest_at_boot=guest, guest_current=guest, guest_requested=guest, memory_overhead=overhead)
    return MemoryStatus(
        guest_at_boot=format_bytes(status.memory_boot_bytes),
        guest_current=format_bytes(status.memory_bytes),
        guest_requested=format_bytes(status.memory_requested_bytes),
        memory_overhead=overhead,
    )


def memory_condition(vmi: VirtualMachineInstance, status: DomainStatus) -> Condition | None:
    """KubeVirt's HotMemoryChange: True as long as the guest is not asked to have what it is to have; None when it is.

    Whether a guest takes what it is offered, and gives back what it is asked for, is its own affair: `guestCurrent`
    tells.
    """
    if status.memory_trouble:
        return Condition(type=HOT_MEMORY_CHANGE, status="True", reason=_MEMORY_FAILED, message=status.memory_trouble)
    memory = vmi.spec.domain.memory
    if memory is None or memory.max_guest is None or not status.memory_boot_bytes:
        return None
    # What it started with it cannot give back.
    if status.memory_requested_bytes == max(guest_memory_bytes(vmi.spec.domain), status.memory_boot_bytes):
        return None
    return _waiting(HOT_MEMORY_CHANGE, find_room(vmi) if lacks_memory(vmi) else None)


def _waiting(type_: str, room: PodRoom | None) -> Condition:
    """With what keeps the Pod from having room for it, if anything does."""
    if room is None or not room.message:
        return Condition(type=type_, status="True")
    return Condition(type=type_, status="True", reason=room.reason, message=room.message)
