"""What of a VMI's growth its launcher is told now: what the Pod has room for, and never less than the guest has.

Called by the hand-over to the launcher. Pure. The controller says for how much the Pod has room (`status.podRoom`).
Without its word a guest that runs stays as it is; one that starts has the Pod that was made for it.
"""

from __future__ import annotations

import msgspec

from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.resources.moves.pod_room import find_room, room_bytes
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import UnreadableCpus, guest_memory_bytes, topology_of
from kvedge.rpc.launcher_pb2 import DomainStatus


def hold_vcpus(vmi: VirtualMachineInstance, status: DomainStatus | None) -> VirtualMachineInstance:
    """The VMI with the sockets that its launcher may plug in by now."""
    cpu = vmi.spec.domain.cpu
    if status is None or status.state not in ALIVE or not status.vcpus or cpu is None:
        return vmi
    try:
        wanted = topology_of(vmi.spec.domain)
    except UnreadableCpus:
        return vmi
    room = find_room(vmi)
    most = max(status.vcpus, 0 if room is None else room.vcpus)
    if wanted.vcpus <= most:
        return vmi
    sockets = max(1, most // (wanted.cores * wanted.threads))
    domain = msgspec.structs.replace(vmi.spec.domain, cpu=msgspec.structs.replace(cpu, sockets=sockets))
    return msgspec.structs.replace(vmi, spec=msgspec.structs.replace(vmi.spec, domain=domain))


def hold_memory(vmi: VirtualMachineInstance, status: DomainStatus | None) -> int:
    """How many bytes of memory the guest may be asked to have by now; what it is to give back it gives at once."""
    wanted = guest_memory_bytes(vmi.spec.domain)
    if status is None or status.state not in ALIVE or not status.memory_boot_bytes:
        return wanted
    room = find_room(vmi)
    return min(wanted, max(status.memory_requested_bytes, 0 if room is None else room_bytes(room)))
