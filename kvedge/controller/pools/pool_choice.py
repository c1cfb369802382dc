"""Which VMs of a pool come first: when it gets smaller, and when a change restarts guests.

Called by the pool's plan. Pure. A change is for the VMs that the policy's selectors match, and for no others. A pool
that gets smaller takes them before all others; KubeVirt takes from the others none, and may reach beyond the end of the
list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from kvedge.controller.pools.pool_template import number_of
from kvedge.resources.codec import JsonObject
from kvedge.resources.label_selectors import LabelSelector, Requirement, selector_of
from kvedge.resources.types.scaling.pools import PoolSelectionPolicy, PoolSelectors
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate

NODE_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": ">", "Lt": "<"}


def in_order(
    vms: Sequence[VirtualMachine], policy: PoolSelectionPolicy | None, generation: int
) -> list[VirtualMachine]:
    """The VMs, those that come first before all others.

    A random order is the same for one generation of the pool: a plan that is made again takes the same VMs.
    """
    kind = (policy.sort_policy if policy is not None else None) or "Random"
    ordered = sorted(vms, key=lambda vm: vm.metadata.name)
    match kind:
        case "AscendingOrder" | "DescendingOrder":
            ordered.sort(key=lambda vm: number_of(vm.metadata.name), reverse=kind == "DescendingOrder")
        case "Newest" | "Oldest":
            ordered.sort(key=lambda vm: vm.metadata.creation_timestamp or "", reverse=kind == "Newest")
        case _:
            ordered.sort(key=lambda vm: _lot(vm, generation))
    first = {vm.metadata.uid for vm in chosen_by(ordered, policy)}
    return sorted(ordered, key=lambda vm: vm.metadata.uid not in first)


def chosen_by(vms: Sequence[VirtualMachine], policy: PoolSelectionPolicy | None) -> list[VirtualMachine]:
    """The VMs that the policy's selectors match; all of them where it has none."""
    selectors = policy.selectors if policy is not None else None
    if selectors is None:
        return list(vms)
    chosen = _Chosen(selectors)
    return [vm for vm in vms if chosen.has(vm)]


def node_selector_of(requirements: Sequence[JsonObject]) -> LabelSelector:
    """The selector that requirements of nodes make; one with an operator that nobody knows matches nothing."""
    return LabelSelector(
        tuple(
            Requirement(
                str(item.get("key") or ""),
                NODE_OPERATORS.get(str(item.get("operator")), "in"),
                tuple(sorted(map(str, item.get("values") or ()))) if item.get("operator") in NODE_OPERATORS else (),
            )
            for item in requirements
        )
    )


class _Chosen:
    def __init__(self, selectors: PoolSelectors) -> None:
        self._labels = None if selectors.label_selector is None else selector_of(selectors.label_selector)
        matcher = selectors.node_selector_requirement_matcher
        self._nodes = node_selector_of(matcher) if matcher else None

    def has(self, vm: VirtualMachine) -> bool:
        template = vm.spec.template or VirtualMachineInstanceTemplate()
        return (self._labels is None or self._labels.matches(template.metadata.labels)) and (
            self._nodes is None or self._nodes.matches(template.spec.node_selector)
        )


def _lot(vm: VirtualMachine, generation: int) -> bytes:
    return hashlib.sha256(f"{vm.metadata.uid}/{generation}".encode()).digest()
