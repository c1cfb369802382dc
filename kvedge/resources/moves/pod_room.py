"""For how large a guest its launcher's Pod has room: the controller says it, the handler and `workloads` go by it.

Pure. A VMI whose vCPUs and memory are those of its start has no such word: its Pod was made for them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kvedge.resources.types.vmi import PodRoom, VirtualMachineInstance
from kvedge.resources.values.quantities import format_bytes, parse_bytes
from kvedge.resources.vmi_facts import guest_memory_bytes, vcpu_count

# The conditions of a Pod whose size is not what its spec says, in Kubernetes' words.
RESIZE_PENDING: Final = "PodResizePending"
RESIZE_IN_PROGRESS: Final = "PodResizeInProgress"
# Why a Pod is not as large as its guest needs it. The first two are the kubelet's words.
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
# How kubelet and agent begin when the whole node has not got so much; what else is infeasible is the Pod's own nature.
NO_CAPACITY: Final = "Node didn't have enough capacity"
# Ours, for the former: no other Pod on that node would be so large, either.
NODE_TOO_SMALL: Final = "NodeTooSmall"
RESIZE_FAILED: Final = "ResizeFailed"
# The same, for so long that there is little hope.
KEEPS_FAILING: Final = "ResizeKeepsFailing"
# The Pod's size is on its way, which is nothing to tell; without any reason the Pod is as its guest is to be.
RESIZING: Final = "Resizing"
OVER_QUOTA: Final = "QuotaExceeded"
REFUSED: Final = "ResizeRefused"
NOT_SERVED: Final = "ResizeNotServed"
# Of these nothing can be hoped for where the guest is: another Pod has to be made for it.
_WANT_OTHER_POD: Final = frozenset({INFEASIBLE, NODE_TOO_SMALL, KEEPS_FAILING, REFUSED, NOT_SERVED})


def find_room(vmi: VirtualMachineInstance) -> PodRoom | None:
    """What is said of the Pod that has the guest now; what was said of one that it has left says nothing."""
    room = vmi.status.pod_room
    return room if room is not None and room.node == vmi.status.node_name else None


def lacks_vcpus(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest is to have more vCPUs than its Pod has room for, as far as anybody has said."""
    room = find_room(vmi)
    return room is not None and vcpu_count(vmi.spec.domain) > room.vcpus


def lacks_memory(vmi: VirtualMachineInstance) -> bool:
    """Likewise of its memory."""
    room = find_room(vmi)
    return room is not None and guest_memory_bytes(vmi.spec.domain) > room_bytes(room)


def room_bytes(room: PodRoom) -> int:
    """The guest's memory that the Pod has room for, in bytes."""
    return 0 if room.memory is None else parse_bytes(room.memory)


def outgrows_pod(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest is to have more than its Pod can ever get where it is."""
    room = find_room(vmi)
    if room is None or room.reason not in _WANT_OTHER_POD or not is_said_of(room, vmi):
        return False
    return lacks_vcpus(vmi) or lacks_memory(vmi)


def outgrows_node(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest is to have more than its whole node has: no other Pod there is so large, either."""
    room = find_room(vmi)
    return outgrows_pod(vmi) and room is not None and room.reason == NODE_TOO_SMALL


def with_reason(
    room: PodRoom, vmi: VirtualMachineInstance, reason: str, message: str, failing_since: str | None = None
) -> PodRoom:
    """The room with what keeps the Pod from what this guest is to have."""
    is_final = reason in _WANT_OTHER_POD
    return msgspec.structs.replace(
        room,
        reason=reason,
        message=message,
        failing_since=failing_since,
        for_vcpus=vcpu_count(vmi.spec.domain) if is_final else None,
        for_memory=format_bytes(guest_memory_bytes(vmi.spec.domain)) if is_final else None,
    )


def is_said_of(room: PodRoom, vmi: VirtualMachineInstance) -> bool:
    """Whether the reason is said of the guest as it is to be by now: another size may well be given.

    A room of an earlier version does not say of which it is: it is taken for this one.
    """
    if room.for_vcpus is None or room.for_memory is None:
        return True
    said = room.for_vcpus, parse_bytes(room.for_memory)
    return said == (vcpu_count(vmi.spec.domain), guest_memory_bytes(vmi.spec.domain))
