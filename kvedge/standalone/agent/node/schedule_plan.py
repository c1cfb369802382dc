"""Whether a Pod fits onto a node, and the scheduler's words when it does not. Pure.

Called by the scheduler loop. The filters and their messages are those of Kubernetes' default scheduler, as far as one
node knows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec.structs import replace

from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.moves.pod_room import INFEASIBLE, RESIZE_PENDING
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Container, Node, Pod
from kvedge.resources.values.quantities import parse_quantity
from kvedge.standalone.agent.pod.place.cpu_pool import exclusive_cpus, pods_cpus
from kvedge.standalone.label_matching import selector_matches, terms_match

_COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
_NO_NODE: Final = "no nodes available to schedule pods"


def fit_reasons(pod: Pod, node: Node, others: Iterable[Pod], pool: int = 0) -> list[str]:
    """Why `pod` cannot run on `node` beside `others`, the Pods that are bound there; empty when it can.

    So many CPUs of the node are in its `pool`: for guests that have them for themselves, and for nobody else.
    """
    reasons = [*_node_reasons(pod, node)]
    if reasons:
        # As the scheduler does: a node that is filtered out is not asked for its room.
        return reasons
    there = [other for other in others if other.status.phase not in FINAL_POD_PHASES]
    return [*room_reasons(pod, node, there, pool), *_neighbour_reasons(pod, there)]


def unschedulable_message(reasons: Sequence[Sequence[str]]) -> str:
    """The condition's message; one list of reasons for each node."""
    if not reasons:
        return _NO_NODE
    counts = Counter(reason for node in reasons for reason in node)
    text = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"0/{len(reasons)} nodes are available: {text}."


def pod_requests(pod: Pod) -> dict[str, Fraction]:
    """What a Pod asks for: the sum of its containers, or its largest init container where that is more."""
    total: dict[str, Fraction] = {}
    for container in pod.spec.containers:
        for name, amount in _requests(container).items():
            total[name] = total.get(name, Fraction()) + amount
    for container in pod.spec.init_containers:
        for name, amount in _requests(container).items():
            total[name] = max(total.get(name, Fraction()), amount)
    return total


def _requests(container: Container) -> dict[str, Fraction]:
    # A limit without a request is a request.
    named = {**container.resources.limits, **container.resources.requests}
    return {name: parse_quantity(value) for name, value in named.items()}


def _node_reasons(pod: Pod, node: Node) -> Iterator[str]:
    ready = next((item for item in node.status.conditions if item.get("type") == "Ready"), {})
    if ready.get("status") != "True":
        yield "node(s) were not ready"
    if node.spec.unschedulable:
        yield "node(s) were unschedulable"
    for taint in node.spec.taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _is_tolerated(taint, pod.spec.tolerations):
            yield f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value', '')}}}"
            break
    if not _selects(pod, node):
        yield "node(s) didn't match Pod's node affinity/selector"


def _selects(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    required = _find_at(pod.spec.affinity, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = required.get("nodeSelectorTerms") if isinstance(required, dict) else None
    return terms is None or terms_match(terms, node)


def _is_tolerated(taint: Mapping[str, Any], tolerations: Iterable[JsonObject]) -> bool:
    return any(_tolerates(item, taint) for item in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def room_reasons(pod: Pod, node: Node, there: Sequence[Pod], pool: int) -> Iterator[str]:
    """What of a node is too small for a Pod beside those that are `there`."""
    allocatable = {name: parse_quantity(value) for name, value in node.status.allocatable.items()}
    alone = exclusive_cpus(pod)
    if alone and alone > (free := pool - pods_cpus(there)):
        yield f"Insufficient dedicated CPUs ({alone} wanted, {max(0, free)} of {pool} free)"
    allocatable["cpu"] = allocatable.get("cpu", Fraction()) - pool
    if len(there) + 1 > allocatable.get("pods", Fraction(0)):
        yield "Too many pods"
    used: dict[str, Fraction] = {}
    for other in there:
        for name, amount in _shared_requests(_as_held(other)).items():
            used[name] = used.get(name, Fraction()) + amount
    for name, amount in sorted(_shared_requests(pod).items()):
        known = name in _COUNTED or "/" in name or name.startswith("hugepages-")
        if known and amount and used.get(name, Fraction()) + amount > allocatable.get(name, Fraction()):
            yield f"Insufficient {name}"


def _as_held(pod: Pod) -> Pod:
    """A Pod with the larger of what it asks for and what is set aside for it: it has that until it has less.

    One that wants to be larger than the node can ever make it is as large as it is: others do not wait for that.
    """
    pending = condition(pod.status.conditions, RESIZE_PENDING)
    grows = pending is None or pending.status != "True" or pending.reason != INFEASIBLE
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    held = {each.name: each.allocated_resources for each in statuses}

    def resize(container: Container) -> Container:
        asked = container.resources.requests
        requests = {**asked, **held.get(container.name, {})}
        if grows:
            requests |= {name: max(asked[name], requests[name], key=parse_quantity) for name in asked}
        return replace(container, resources=replace(container.resources, requests=requests))

    init, main = map(resize, pod.spec.init_containers), map(resize, pod.spec.containers)
    return replace(pod, spec=replace(pod.spec, init_containers=list(init), containers=list(main)))


def _shared_requests(pod: Pod) -> dict[str, Fraction]:
    """Without the CPUs of a Pod that has some for itself: all that runs in it runs there."""
    asked = pod_requests(pod)
    if exclusive_cpus(pod):
        asked.pop("cpu", None)
    return asked


def _neighbour_reasons(pod: Pod, there: Sequence[Pod]) -> Iterator[str]:
    """Affinity and anti-affinity to other Pods: on one box every topology key means this box."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    for term in _find_at(pod.spec.affinity, "podAffinity", field) or []:
        if not any(_is_meant(term, pod, other) for other in (*there, pod)):
            yield "node(s) didn't match pod affinity rules"
            break
    for term in _find_at(pod.spec.affinity, "podAntiAffinity", field) or []:
        if any(_is_meant(term, pod, other) for other in there):
            yield "node(s) didn't match pod anti-affinity rules"
            break


def _is_meant(term: Mapping[str, Any], pod: Pod, other: Pod) -> bool:
    namespaces = term.get("namespaces") or [pod.metadata.namespace]
    if other.metadata.namespace not in namespaces:
        return False
    selector = term.get("labelSelector")
    if selector is None:
        return False
    return selector_matches(selector, other.metadata.labels)


def _find_at(document: JsonObject | None, *path: str) -> Any:
    found: Any = document
    for key in path:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found
