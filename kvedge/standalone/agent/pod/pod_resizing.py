"""A Pod that runs gets the CPU and the memory that it asks for by now, as a kubelet gives them to it.

Called by the Pod loop in the worker that has the Pod's key. What was set aside for it is in its record, so that the
next agent goes on from there. On one box nothing but the Pod's cgroups has to change: its weight and limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import Condition
from kvedge.resources.moves.pod_room import DEFERRED, INFEASIBLE, RESIZE_IN_PROGRESS, RESIZE_PENDING
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Container, Pod, ResourceAmounts
from kvedge.resources.values.quantities import parse_quantity
from kvedge.standalone.agent.container.cgroups import CgroupLimits
from kvedge.standalone.agent.pod.local_pods import LocalPod
from kvedge.standalone.agent.pod.place.pod_place import Places

# Whether another Pod has ended, or less memory is used, nobody tells.
_LOOK_AGAIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Resizing:
    """Finds whether the node has room: `find_lacks(pod, others)` says what of it is too small for a Pod beside others;
    `list_pods()` are all Pods.
    """

    find_lacks: Callable[[Pod, Sequence[Pod]], Sequence[str]]
    list_pods: Callable[[], Sequence[Pod]]

    def refuse(self, pod: Pod) -> Condition | None:
        """The condition of a Pod that cannot be as large as it asks for now, or ever; None when it can."""
        alone = self.find_lacks(pod, [])
        if alone:
            text = f"Node didn't have enough capacity: {', '.join(alone)}"
            return Condition(type=RESIZE_PENDING, status="True", reason=INFEASIBLE, message=text)
        others = [
            each
            for each in self.list_pods()
            if each.spec.node_name == pod.spec.node_name
            and each.metadata.uid != pod.metadata.uid
            and each.status.phase not in FINAL_POD_PHASES
        ]
        beside = self.find_lacks(pod, others)
        if not beside:
            return None
        text = f"Node didn't have enough resource: {', '.join(beside)}"
        return Condition(type=RESIZE_PENDING, status="True", reason=DEFERRED, message=text)


def follow_size(resizing: Resizing, places: Places, local: LocalPod) -> float | None:
    """Give the Pod its size, and note it in the record; in how many seconds to look again, None when it has it.

    The caller writes the record down.
    """
    if local.pod.metadata.deletion_timestamp is not None or has_size(local):
        local.resize = None
        return None
    refused = None if _only_shrinks(local) else resizing.refuse(local.pod)
    problem = "" if refused is not None else _apply(places, local)
    if problem:
        refused = Condition(type=RESIZE_IN_PROGRESS, status="True", reason="Error", message=problem)
    local.resize = refused
    if refused is not None:
        return _LOOK_AGAIN_SECONDS
    note_size(local)
    return None


def amounts_of(pod: Pod) -> dict[str, ResourceAmounts]:
    """CPU, memory and the rest that the Pod's containers ask for, by name."""
    return {item.name: _amounts(item) for item in (*pod.spec.init_containers, *pod.spec.containers)}


def sizes_of(local: LocalPod) -> dict[str, ResourceAmounts]:
    """What is set aside for the Pod's containers, by name."""
    spec = local.record.pod.get("spec") or {}
    found: dict[str, ResourceAmounts] = {}
    for field in ("initContainers", "containers"):
        for item in spec.get(field) or []:
            said = item.get("resources") or {}
            amounts = {name: said[name] for name in ("requests", "limits") if name in said}
            found[item["name"]] = decode(ResourceAmounts, amounts)
    return found


def has_size(local: LocalPod) -> bool:
    """Whether the Pod has what it asks for."""
    return amounts_of(local.pod) == sizes_of(local)


def note_size(local: LocalPod) -> None:
    """What the Pod asks for is set aside for it from now on."""
    known = local.record.decode_pod()
    wanted = {item.name: item.resources for item in (*local.pod.spec.init_containers, *local.pod.spec.containers)}

    def resize(containers: list[Container]) -> list[Container]:
        return [msgspec.structs.replace(item, resources=wanted.get(item.name, item.resources)) for item in containers]

    spec = msgspec.structs.replace(
        known.spec,
        containers=resize(known.spec.containers),
        init_containers=resize(known.spec.init_containers),
    )
    local.record.pod = encode(msgspec.structs.replace(known, spec=spec))


def _amounts(container: Container) -> ResourceAmounts:
    return ResourceAmounts(requests=dict(container.resources.requests), limits=dict(container.resources.limits))


def _only_shrinks(local: LocalPod) -> bool:
    """What is given back needs no room."""
    before = sizes_of(local)
    return all(
        name in before[container].requests
        and parse_quantity(amount) <= parse_quantity(before[container].requests[name])
        for container, amounts in amounts_of(local.pod).items()
        if container in before
        for name, amount in amounts.requests.items()
    )


def _apply(places: Places, local: LocalPod) -> str:
    """Change the Pod's cgroups; what is in the way, or nothing."""
    uid = local.files.uid
    limits: CgroupLimits = places.limits_of(local.pod, uid)
    usage = places.cgroups.usage(uid) if limits.memory else None
    if usage is not None and usage.memory > limits.memory:
        return f"the Pod uses {usage.memory} bytes of memory, and its limit is to be {limits.memory}"
    return places.cgroups.resize(uid, limits)
