"""What a Pod asks for as a whole, from what its containers ask for.

Used by quotas and limit ranges. Pure. Init containers run one after the other before all others do, so that the largest
of theirs counts. An init container that goes on (restartPolicy Always) counts with the others and with all that start
after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import QuantityError
from kvedge.standalone.apiserver.wire.amounts import Amount, amount_of, amounts_of, largest, total


def pod_amounts(pod: JsonObject, field: str) -> dict[str, Amount]:
    """A Pod's `requests`, or its `limits`."""
    spec = pod.get("spec") or {}
    going_on: list[dict[str, Amount]] = []
    peaks: list[dict[str, Amount]] = []
    so_far: dict[str, Amount] = {}
    for container in spec.get("initContainers") or []:
        amounts = container_amounts(container, field)
        peak = total((so_far, amounts))
        peaks.append(peak)
        if container.get("restartPolicy") == "Always":
            so_far = peak
            going_on.append(amounts)
    running = [container_amounts(container, field) for container in spec.get("containers") or []]
    found = largest((total((*running, *going_on)), *peaks))
    # Said for the Pod as a whole, these stand for what its containers say.
    whole = amounts_of((spec.get("resources") or {}).get(field))
    found.update({name: amount for name, amount in whole.items() if name in ("cpu", "memory")})
    return found


def container_amounts(container: JsonObject, field: str) -> dict[str, Amount]:
    """A container's `requests`, or its `limits`."""
    return amounts_of((container.get("resources") or {}).get(field))


def containers_that_start(pod: JsonObject) -> Iterator[JsonObject]:
    """The containers that count: the usual ones, then the init containers."""
    spec = pod.get("spec") or {}
    yield from spec.get("containers") or []
    yield from spec.get("initContainers") or []


def qos_class(pod: JsonObject) -> str:
    """How safe the Pod is when memory runs short, by what its containers ask for."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    resources = [container.get("resources") or {} for container in containers]
    if not any(asked.get("requests") or asked.get("limits") for asked in resources):
        return "BestEffort"
    for asked in resources:
        limits, requests = asked.get("limits") or {}, asked.get("requests") or {}
        if not all(name in limits and _is_same(requests.get(name), limits[name]) for name in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"


def _is_same(one: object, other: object) -> bool:
    """Whether two quantities are the same amount, however they are written."""
    if one is None or one == other:
        return one == other
    try:
        return amount_of(one).value == amount_of(other).value
    except QuantityError:
        # Another rule says so.
        return False
