"""A Pod that runs gets the CPU and the memory that it asks for by now, as a kubelet gives them to it.

Called by the Pod loop in the worker that has the Pod's key. What was set aside for it is in its record, so that the
next agent goes on from there. On one box nothing but the Pod's cgroups has to change: its weight and limits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import Condition, condition
from kvedge.resources.moves.pod_room import DEFERRED, INFEASIBLE, NO_CAPACITY, RESIZE_IN_PROGRESS, RESIZE_PENDING
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Container, Pod, ResourceAmounts
from kvedge.resources.values.quantities import parse_quantity
from kvedge.standalone.agent.container.cgroups import CgroupLimits
from kvedge.standalone.agent.pod.local_pods import LocalPod
from kvedge.standalone.agent.pod.place.pod_place import Places

# Whether another Pod has ended, or less memory is used, nobody tells.
_LOOK_AGAIN_SECONDS: Final = 5.0


class Resizing(Struct, frozen=True):
    """Finds whether the node has room: `find_lacks(pod, others)` says what of it is too small for a Pod beside others;
    `list_pods()` are all Pods, and `find_local(uid)` is what this agent knows of one.

    One Pod at a time is judged and given its size: two that both fit alone may not fit together.
    """

    find_lacks: Callable[[Pod, Sequence[Pod]], Sequence[str]]
    list_pods: Callable[[], Sequence[Pod]]
    find_local: Callable[[str], LocalPod | None]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(self, pod: Pod) -> Condition | None:
        """The condition of a Pod that cannot be as large as it asks for now, or ever; None when it can."""
        alone = self.find_lacks(pod, [])
        if alone:
            text = f"{NO_CAPACITY}: {', '.join(alone)}"
            return Condition(type=RESIZE_PENDING, status="True", reason=INFEASIBLE, message=text)
        beside = self.find_lacks(pod, self._list_beside(pod))
        if not beside:
            return None
        text = f"Node didn't have enough resource: {', '.join(beside)}"
        return Condition(type=RESIZE_PENDING, status="True", reason=DEFERRED, message=text)

    def _list_beside(self, pod: Pod) -> list[Pod]:
        """The other Pods, each with what is set aside for it, as a kubelet counts them: what one waits for is no
        other's.

        Of those that wait, the one that waits longest comes first: if it fits by now, its new size is counted.
        """
        others = {
            each.metadata.uid: each
            for each in self.list_pods()
            if each.spec.node_name == pod.spec.node_name
            and each.metadata.uid != pod.metadata.uid
            and each.status.phase not in FINAL_POD_PHASES
        }
        found = {uid: self._as_held(each) for uid, each in others.items()}
        for each in sorted(filter(_waits, others.values()), key=_waits_since):
            if _waits(pod) and _waits_since(pod) < _waits_since(each):
                break
            uid = each.metadata.uid
            larger = _with_larger(each, found[uid])
            if not self.find_lacks(
                larger, [pod_as_held(pod, self.find_local(pod.metadata.uid)), *_without(found, uid)]
            ):
                found[uid] = larger
        return list(found.values())

    def _as_held(self, pod: Pod) -> Pod:
        return pod_as_held(pod, self.find_local(pod.metadata.uid))


def _without(pods: Mapping[str, Pod], uid: str) -> list[Pod]:
    return [each for name, each in pods.items() if name != uid]


def _waits(pod: Pod) -> bool:
    """Whether the node had no room for the Pod when it last looked, and will look again."""
    found = condition(pod.status.conditions, RESIZE_PENDING)
    is_deferred = found is not None and found.status == "True" and found.reason == DEFERRED
    return is_deferred and pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None


def _waits_since(pod: Pod) -> tuple[str, str]:
    found = condition(pod.status.conditions, RESIZE_PENDING)
    return "" if found is None else found.last_transition_time or "", pod.metadata.uid


def _with_larger(pod: Pod, held: Pod) -> Pod:
    """The Pod with what it asks for, and no less than what it has."""
    has = {item.name: item.resources for item in (*held.spec.init_containers, *held.spec.containers)}

    def join(container: Container) -> Container:
        mine, others = container.resources, has[container.name]
        requests = {**others.requests, **mine.requests}
        for name, amount in others.requests.items():
            requests[name] = max(amount, requests[name], key=parse_quantity)
        return replace(container, resources=replace(mine, requests=requests))

    return replace(pod, spec=replace(pod.spec, containers=[join(each) for each in pod.spec.containers]))


def pod_as_held(pod: Pod, local: LocalPod | None) -> Pod:
    """The Pod as large as what is set aside for it, whatever it asks for by now."""
    if local is None:
        return pod
    sizes = sizes_of(local)

    def shrink(container: Container) -> Container:
        size = sizes.get(container.name)
        if size is None:
            return container
        resources = replace(container.resources, requests=dict(size.requests), limits=dict(size.limits))
        return replace(container, resources=resources)

    init, main = map(shrink, pod.spec.init_containers), map(shrink, pod.spec.containers)
    return replace(pod, spec=replace(pod.spec, init_containers=list(init), containers=list(main)))


def follow_size(
    resizing: Resizing, places: Places, local: LocalPod, write_down: Callable[[LocalPod], None]
) -> float | None:
    """Give the Pod its size, and have its record written down; in how many seconds to look again, None when it has it.

    A size that is not written down is not given: the next agent would take it back from a guest that has grown.
    """
    if local.pod.metadata.deletion_timestamp is not None or has_size(local):
        local.resize = None
        return None
    with resizing.lock:
        refused = None if _only_shrinks(local) else resizing.refuse(local.pod)
        problem = "" if refused is not None else _apply(places, local) or _note(local, write_down)
    if problem:
        refused = Condition(type=RESIZE_IN_PROGRESS, status="True", reason="Error", message=problem)
    local.resize = refused
    return None if refused is None else _LOOK_AGAIN_SECONDS


def _note(local: LocalPod, write_down: Callable[[LocalPod], None]) -> str:
    """Note the Pod's size; what is in the way, or nothing."""
    before = local.record.pod
    note_size(local)
    try:
        write_down(local)
    except OSError as error:
        local.record.pod = before
        return f"the Pod's record cannot be written: {error}"
    return ""


def amounts_of(pod: Pod) -> dict[str, ResourceAmounts]:
    """CPU, memory and the rest that the Pod's containers ask for, by name."""
    return {item.name: _amounts(item) for item in (*pod.spec.init_containers, *pod.spec.containers)}


def sizes_of(local: LocalPod) -> dict[str, ResourceAmounts]:
    """What is set aside for the Pod's containers, by name."""
    spec = local.record.pod.get("spec") or {}
    found: dict[str, ResourceAmounts] = {}
    for kind in ("initContainers", "containers"):
        for item in spec.get(kind) or []:
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
        return [replace(item, resources=wanted.get(item.name, item.resources)) for item in containers]

    spec = replace(
        known.spec,
        containers=resize(known.spec.containers),
        init_containers=resize(known.spec.init_containers),
    )
    local.record.pod = encode(replace(known, spec=spec))


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
