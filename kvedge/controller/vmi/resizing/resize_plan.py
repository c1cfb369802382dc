"""How large a running guest's Pod has to be, and for how large a guest it has room.

Called by the VMI's plan, from `Scheduled` on. Pure. A Pod is resized only once its guest's vCPUs or memory have
changed: what a Pod of today would ask for does not matter to the others. It grows before the guest does, and shrinks
once the guest has given memory back.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import pod_resources
from kvedge.controller.vmi.launcher_pods import is_moving, is_over
from kvedge.controller.vmi.resizing.guest_size import is_made_for, memory_now, memory_status, vcpus_now
from kvedge.controller.vmi.resizing.room_reasons import KEEPS_FAILING_SECONDS, explain_room
from kvedge.controller.vmi.vmi_view import ResizePod
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition
from kvedge.resources.moves.pod_room import (
    DEFERRED,
    INFEASIBLE,
    KEEPS_FAILING,
    NODE_TOO_SMALL,
    RESIZE_FAILED,
    RESIZE_IN_PROGRESS,
    RESIZE_PENDING,
    RESIZING,
    find_room,
    is_said_of,
    room_bytes,
    with_reason,
)
from kvedge.resources.types.core import Container, ContainerStatus, Pod, ResourceAmounts
from kvedge.resources.types.vmi import PodRoom, VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity, format_bytes, parse_bytes, parse_quantity
from kvedge.resources.vmi_facts import guest_memory_bytes, vcpu_count

# What a Pod may have more or less of while it runs.
_RESIZED: Final[tuple[str, ...]] = ("cpu", "memory")
_COMPUTE: Final = "compute"
# What the kubelet says of an order; the other reasons are the server's.
_NODES_WORDS: Final = frozenset({DEFERRED, INFEASIBLE, NODE_TOO_SMALL, RESIZE_FAILED, KEEPS_FAILING})
# What earlier versions of the CRD do not keep.
_NEWER: Final[tuple[str, ...]] = ("limit_above", "failing_since", "for_vcpus", "for_memory")


def plan_room(
    vmi: VirtualMachineInstance, pod: Pod, config: ClusterConfig, now: datetime, *, keeps_limits: bool = False
) -> PodRoom | None:
    """For how large a guest the Pod has room; None when its guest has never changed, nor is to.

    With `keeps_limits` the server lowers no memory limits. What this says is written before the order is given.
    """
    known = find_room(vmi)
    if not _is_followed(vmi, pod):
        return vmi.status.pod_room
    container = _compute_of(pod)
    if container is None:
        return vmi.status.pod_room
    if known is not None and _is_settled(vmi):
        return known
    made = PodRoom(
        node=vmi.status.node_name,
        vcpus=vcpu_count(vmi.spec.domain),
        memory=format_bytes(guest_memory_bytes(vmi.spec.domain)),
        reason=RESIZING if _gives_back(vmi) else "",
        limit_above=_find_limit_above(vmi, container),
    )
    if known is None and is_made_for(vmi, pod):
        return made
    room = _lower(_room_before(vmi) if known is None else known, vmi)
    room = msgspec.structs.replace(room, limit_above=made.limit_above)
    if not _has(container.resources, _size(vmi, container, config, keeps_limits)):
        return _settle(known, _before_order(room, vmi))
    if not _is_actuated(pod, container):
        return _settle(known, explain_room(room, vmi, pod, now))
    return _settle(known, made)


def _settle(known: PodRoom | None, room: PodRoom) -> PodRoom:
    """What is known, when nothing else is new than fields that it lacks: a server with an earlier version's CRD drops
    them from each answer, and would be told of them for ever.
    """
    if known is None:
        return room
    kept = msgspec.structs.replace(room, **{name: None for name in _NEWER if getattr(known, name) is None})
    return known if kept == known else room


def _before_order(room: PodRoom, vmi: VirtualMachineInstance) -> PodRoom:
    """What the server said of the last try stays until the next one; what the node said was of the order before, as is
    what anybody said of a guest of another size.
    """
    if room.reason and room.reason not in _NODES_WORDS and is_said_of(room, vmi):
        return room
    return with_reason(room, vmi, RESIZING, "")


def plan_resize(
    vmi: VirtualMachineInstance, pod: Pod, config: ClusterConfig, *, keeps_limits: bool = False
) -> tuple[ResizePod, ...]:
    """The order that gives the Pod its size; none when it was given already, or has been right all the time."""
    container = _compute_of(pod)
    if container is None or not _is_followed(vmi, pod) or _is_settled(vmi):
        return ()
    if find_room(vmi) is None and is_made_for(vmi, pod):
        return ()
    wanted = _size(vmi, container, config, keeps_limits)
    if _has(container.resources, wanted):
        return ()
    less = copy.deepcopy(wanted)
    _keep_memory(less, container.resources)
    return (ResizePod(pod, _order(wanted), None if less == wanted else _order(less)),)


def next_look(room: PodRoom | None) -> float | None:
    """In how many seconds the room is looked at again though nobody tells anything new; None when not."""
    return KEEPS_FAILING_SECONDS / 6 if room is not None and room.reason == RESIZE_FAILED else None


def _order(size: ResourceAmounts) -> JsonObject:
    resources = {"requests": size.requests, "limits": size.limits}
    return {"spec": {"containers": [{"name": _COMPUTE, "resources": resources}]}}


def _keep_memory(size: ResourceAmounts, present: ResourceAmounts) -> None:
    """A server before Kubernetes 1.34 lowers no memory limit. A request that is the limit stays with it: else the Pod
    would come to another QoS class, which no server allows.
    """
    if parse_quantity(present.limits.get("memory", 0)) == parse_quantity(present.requests.get("memory", 0)):
        _keep_larger(size.requests, present.limits, "memory")
    _keep_larger(size.limits, present.limits, "memory")


def _is_followed(vmi: VirtualMachineInstance, pod: Pod) -> bool:
    """Whether the Pod's size matters now: the guest is to change, or has changed, and stays where it is."""
    if vmi.status.phase != "Running" or vmi.metadata.deletion_timestamp is not None or is_moving(vmi) or is_over(pod):
        return False
    return vmi.status.pod_room is not None or _changes(vmi)


def _is_settled(vmi: VirtualMachineInstance) -> bool:
    """Whether the Pod has got the size of just this guest: by another release, or another configuration, it would get
    another, which does not matter.
    """
    room = find_room(vmi)
    if room is None or room.reason:
        return False
    return (room.vcpus, room_bytes(room)) == (vcpu_count(vmi.spec.domain), guest_memory_bytes(vmi.spec.domain))


def _gives_back(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest has not given back what it is to give back: what it was asked to have it may take at any
    moment.
    """
    return memory_now(vmi) > guest_memory_bytes(vmi.spec.domain)


def _changes(vmi: VirtualMachineInstance) -> bool:
    vcpus, memory = vcpus_now(vmi), vmi.spec.domain.memory
    if vcpus and vcpus != vcpu_count(vmi.spec.domain):
        return True
    requested = memory_status(vmi, "guest_requested")
    # Sizes of guests that keep their memory may be rounded up.
    return bool(memory and memory.max_guest and requested) and requested != guest_memory_bytes(vmi.spec.domain)


def _size(
    vmi: VirtualMachineInstance, container: Container, config: ClusterConfig, keeps_limits: bool
) -> ResourceAmounts:
    """What the container is to have of CPU and memory. Limits that its namespace has given it change with it."""
    wanted, present = pod_resources(vmi, config), container.resources
    requests = {name: wanted.requests[name] for name in _RESIZED if name in wanted.requests}
    limits = {name: amount for name, amount in wanted.limits.items() if name in _RESIZED}
    if _gives_back(vmi):
        _keep_larger(requests, present.requests, "memory")
        _keep_larger(limits, present.limits, "memory")
    if "memory" in present.limits and "memory" not in limits:
        limits["memory"] = _plus(requests["memory"], parse_bytes(_find_limit_above(vmi, container) or 0))
        _keep_larger(limits, requests, "memory")
    if "cpu" in present.limits and "cpu" not in limits:
        limits["cpu"] = present.limits["cpu"]
        # One that leaves the guest less than its vCPUs is meant to.
        if parse_quantity(limits["cpu"]) >= (vcpus_now(vmi) or math.inf):
            _keep_larger(limits, {"cpu": str(vcpu_count(vmi.spec.domain))}, "cpu")
        _keep_larger(limits, requests, "cpu")
    size = ResourceAmounts(requests=requests, limits=limits)
    if keeps_limits:
        _keep_memory(size, present)
    return size


def _find_limit_above(vmi: VirtualMachineInstance, container: Container) -> Quantity | None:
    """By how much the memory's limit was above its request before both were changed; None without one of its namespace.

    A server that lowers no limit keeps one whose request has shrunk: what lies between them then is too much, and would
    grow with each time that the guest gives memory back.
    """
    known, present = find_room(vmi), container.resources
    if "memory" not in present.limits or "memory" in vmi.spec.domain.resources.limits:
        return None
    if known is not None and known.limit_above is not None:
        return known.limit_above
    limit = parse_bytes(present.limits["memory"])
    return format_bytes(max(0, limit - parse_bytes(present.requests.get("memory", limit))))


def _plus(amount: Quantity, more: int) -> Quantity:
    return str(parse_bytes(amount) + more) if more else amount


def _keep_larger(amounts: dict[str, Quantity], others: Mapping[str, Quantity], name: str) -> None:
    if name in amounts and name in others and parse_quantity(others[name]) > parse_quantity(amounts[name]):
        amounts[name] = others[name]


def _has(present: ResourceAmounts, wanted: ResourceAmounts) -> bool:
    return all(_same(present.requests, wanted.requests)) and all(_same(present.limits, wanted.limits))


def _same(present: Mapping[str, Quantity], wanted: Mapping[str, Quantity]) -> Iterator[bool]:
    for name, amount in wanted.items():
        yield name in present and parse_quantity(present[name]) == parse_quantity(amount)


def _is_actuated(pod: Pod, container: Container) -> bool:
    """Whether the node has set aside what the Pod's spec says, and the container's limits are as large.

    A node that says nothing of it has made the container as the spec was from the start: it resizes none.
    """
    status = next((each for each in pod.status.container_statuses if each.name == container.name), None)
    if status is None or (status.resources is None and not status.allocated_resources):
        return True
    if any(_is_pending(item) for item in pod.status.conditions):
        return False
    return all(_reaches(status, container.resources))


def _is_pending(item: Condition) -> bool:
    return item.type in (RESIZE_PENDING, RESIZE_IN_PROGRESS) and item.status == "True"


def _reaches(status: ContainerStatus, spec: ResourceAmounts) -> Iterator[bool]:
    limits = {} if status.resources is None else status.resources.limits
    allocated = status.allocated_resources or ({} if status.resources is None else status.resources.requests)
    for name in _RESIZED:
        if name in spec.requests:
            yield name in allocated and parse_quantity(allocated[name]) == parse_quantity(spec.requests[name])
        if name in spec.limits:
            yield name in limits and math.isclose(parse_quantity(limits[name]), parse_quantity(spec.limits[name]))


def _room_before(vmi: VirtualMachineInstance) -> PodRoom:
    """What the Pod was made for: what its guest has."""
    memory = memory_status(vmi, "guest_requested") or guest_memory_bytes(vmi.spec.domain)
    vcpus = vcpus_now(vmi) or vcpu_count(vmi.spec.domain)
    return PodRoom(node=vmi.status.node_name, vcpus=vcpus, memory=format_bytes(memory))


def _lower(room: PodRoom, vmi: VirtualMachineInstance) -> PodRoom:
    """No more than the guest is to have, from the order on: else it would grow again under a limit that is smaller by
    then.
    """
    vcpus, memory = vcpu_count(vmi.spec.domain), guest_memory_bytes(vmi.spec.domain)
    if vcpus >= room.vcpus and memory >= room_bytes(room):
        return room
    least = min(memory, room_bytes(room))
    return msgspec.structs.replace(room, vcpus=min(vcpus, room.vcpus), memory=format_bytes(least))


def _compute_of(pod: Pod) -> Container | None:
    return next((each for each in pod.spec.containers if each.name == _COMPUTE), None)
