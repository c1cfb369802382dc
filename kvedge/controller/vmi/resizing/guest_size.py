"""How large a guest is beside how large it is to be, and for how large a guest a Pod was made that it comes to.

Called by the plans of migrations and by those who make their Pods. Pure. A guest that is to give memory back has it
until it does, and one whose Pod has grown may take what there is: the Pod that it comes to needs room for that.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from kvedge.resources.moves.pod_room import find_room, room_bytes
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity, QuantityError, format_bytes, parse_bytes
from kvedge.resources.vmi_facts import UnreadableCpus, guest_memory_bytes, topology_of, vcpu_count

# On a Pod that a guest comes to.
_MADE_FOR: Final = "kvedge.io/made-for-guest"
_LONGEST: Final = 20


class GuestSize(Struct, frozen=True):
    """vCPUs, and bytes of memory."""

    vcpus: int = 0
    memory: int = 0

    def join(self, other: GuestSize) -> GuestSize:
        """The larger of each."""
        return GuestSize(max(self.vcpus, other.vcpus), max(self.memory, other.memory))

    def fits(self, other: GuestSize) -> bool:
        """Whether it is no larger in anything."""
        return self.join(other) == other

    def __str__(self) -> str:
        return f"{self.vcpus} vCPUs, {format_bytes(self.memory)}"


def vcpus_now(vmi: VirtualMachineInstance) -> int:
    """The vCPUs that the guest has; 0 when nobody has told."""
    has = vmi.status.current_cpu_topology
    return 0 if has is None else has.sockets * has.cores * has.threads


def memory_now(vmi: VirtualMachineInstance) -> int:
    """The most that the guest has or may take at any moment, as it was asked to; 0 for one that keeps its memory."""
    memory = vmi.spec.domain.memory
    # Sizes of guests that keep their memory may be rounded up.
    if memory is None or not memory.max_guest:
        return 0
    return max(memory_status(vmi, "guest_current"), memory_status(vmi, "guest_requested"))


def memory_status(vmi: VirtualMachineInstance, name: str) -> int:
    """What the VMI's status says of the guest's memory, in bytes; 0 when nobody has told."""
    told = None if vmi.status.memory is None else getattr(vmi.status.memory, name)
    try:
        return 0 if told is None else parse_bytes(told)
    except QuantityError:
        return 0


def size_of(vmi: VirtualMachineInstance) -> GuestSize:
    """What the guest has, or may take at any moment: its handler goes by what its Pod has room for."""
    has, room = GuestSize(vcpus_now(vmi), memory_now(vmi)), find_room(vmi)
    if room is None:
        return has
    wanted = GuestSize(vcpu_count(vmi.spec.domain), guest_memory_bytes(vmi.spec.domain))
    return has.join(GuestSize(min(room.vcpus, wanted.vcpus), min(room_bytes(room), wanted.memory)))


def as_large(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    """The VMI as a Pod is made for it that its running guest comes to: what it is to have, and no less than it has."""
    domain, has = vmi.spec.domain, size_of(vmi)
    more = has.memory - guest_memory_bytes(domain)
    if more > 0 and domain.memory is not None:
        amounts = domain.resources
        resources = msgspec.structs.replace(
            amounts, requests=_plus(amounts.requests, more), limits=_plus(amounts.limits, more)
        )
        memory = msgspec.structs.replace(domain.memory, guest=format_bytes(has.memory))
        domain = msgspec.structs.replace(domain, memory=memory, resources=resources)
    try:
        topology = topology_of(domain)
    except UnreadableCpus:
        topology = None
    if topology is not None and has.vcpus > topology.vcpus and domain.cpu is not None:
        sockets = -(-has.vcpus // (topology.cores * topology.threads))
        domain = msgspec.structs.replace(domain, cpu=msgspec.structs.replace(domain.cpu, sockets=sockets))
    if domain is vmi.spec.domain:
        return vmi
    return msgspec.structs.replace(vmi, spec=msgspec.structs.replace(vmi.spec, domain=domain))


def _plus(amounts: dict[str, Quantity], more: int) -> dict[str, Quantity]:
    return {name: str(parse_bytes(said) + more) if name == "memory" else said for name, said in amounts.items()}


def made_for(vmi: VirtualMachineInstance) -> dict[str, str]:
    """The annotation of a Pod that is made for such a VMI."""
    return {_MADE_FOR: f"{vcpu_count(vmi.spec.domain)} {guest_memory_bytes(vmi.spec.domain)}"}


def outgrows(vmi: VirtualMachineInstance, target: Pod) -> bool:
    """Whether the guest is larger by now than the one that the Pod was made for."""
    made = _read_mark(target)
    if made is None:
        # An earlier controller made it, for what the VMI said then: a guest that keeps its size has room in it.
        return vmi.status.pod_room is not None
    return not size_of(vmi).fits(made)


def is_made_for(vmi: VirtualMachineInstance, pod: Pod) -> bool:
    """Whether the guest came to the Pod, which was made for just what it is to have."""
    return _read_mark(pod) == GuestSize(vcpu_count(vmi.spec.domain), guest_memory_bytes(vmi.spec.domain))


def _read_mark(pod: Pod) -> GuestSize | None:
    said = pod.metadata.annotations.get(_MADE_FOR, "").split()
    if len(said) != 2 or not all(each.isdecimal() and len(each) <= _LONGEST for each in said):
        return None
    return GuestSize(*map(int, said))
