"""What the CPU of the node must have that a guest comes to, where the guest has its node's own.

Called when the target's Pod is made, and by the migration's plan while no node takes it. Pure. The labels are
KubeVirt's, as the handlers write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.counters.tsc_frequency import find_range
from kvedge.resources.names import (
    CPU_FEATURE_PREFIX,
    CPU_MIGRATION_PREFIX,
    CPU_MODEL_PREFIX,
    CPU_VENDOR_PREFIX,
    HOST_MODEL_FEATURE_PREFIX,
    HOST_MODEL_PREFIX,
    TSC_FREQUENCY,
    TSC_SCALABLE,
)
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import has_host_model

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MODEL_DEMANDS: Final = (CPU_MIGRATION_PREFIX, CPU_FEATURE_PREFIX)
# Of 100; a user's own wishes may outweigh both.
_SAME_CPU: Final = 40
_ABLE_CPU: Final = 40


def demand_cpu(vmi: VirtualMachineInstance, source: Pod | None, source_labels: Mapping[str, str]) -> dict[str, str]:
    """Labels, with their values, that the node must have; `source_labels` are those of the node that the guest leaves.

    A guest that has come to that node has the CPU of the one where it started: the Pod that it came to says which. With
    nothing known of the node nothing is demanded, and libvirt refuses a guest that does not fit.
    """
    if not _is_of_node(vmi) or source is None:
        return {}
    had = _select(source.spec.node_selector, (*_MODEL_DEMANDS, CPU_VENDOR_PREFIX))
    if any(key.startswith(CPU_MIGRATION_PREFIX) for key in had):
        return had
    demands = _select(source_labels, (CPU_VENDOR_PREFIX,))
    models = _rename(source_labels, HOST_MODEL_PREFIX, CPU_MIGRATION_PREFIX)
    if models and has_host_model(vmi.spec.domain):
        demands |= models | _rename(source_labels, HOST_MODEL_FEATURE_PREFIX, CPU_FEATURE_PREFIX)
    return demands


def explain_unsuited(
    vmi: VirtualMachineInstance, target: Pod, nodes: Iterable[tuple[str, Mapping[str, str]]]
) -> str | None:
    """KubeVirt's words where no other node has the CPU that the target's Pod demands; `nodes` are names and labels."""
    if not has_host_model(vmi.spec.domain):
        return None
    demands = _select(target.spec.node_selector, _MODEL_DEMANDS)
    if not any(key.startswith(CPU_MIGRATION_PREFIX) for key in demands):
        return None
    if any(name != vmi.status.node_name and demands.items() <= labels.items() for name, labels in nodes):
        return None
    # As Go writes a map.
    said = " ".join(f"{key}:{value}" for key, value in sorted(demands.items()))
    return (
        "Migration cannot proceed since no node is suitable to run the required CPU model / required features:"
        f" map[{said}]"
    )


def near_cpu(affinity: JsonObject, vmi: VirtualMachineInstance, source_labels: Mapping[str, str]) -> JsonObject:
    """Rather on a node of the same CPU, or of one that has all of its model, where the guest has its node's CPU."""
    if not _is_of_node(vmi):
        return affinity
    models = sorted(key.removeprefix(HOST_MODEL_PREFIX) for key in source_labels if key.startswith(HOST_MODEL_PREFIX))
    wished = [
        _prefer(weight, prefix + model)
        for model in models
        for prefix, weight in ((HOST_MODEL_PREFIX, _SAME_CPU), (CPU_MODEL_PREFIX, _ABLE_CPU))
    ]
    if not wished:
        return affinity
    node = affinity.get("nodeAffinity") or {}
    return {**affinity, "nodeAffinity": {**node, _PREFERRED: [*(node.get(_PREFERRED) or []), *wished]}}


def demand_frequency(affinity: JsonObject, hertz: int | None) -> JsonObject:
    """On a node alone whose counter has the frequency that the guest was told, or can have it; None: it was told none.

    A faster counter can be slowed down, as KubeVirt counts on.
    """
    if hertz is None:
        return affinity
    node = affinity.get("nodeAffinity") or {}
    asked = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    # A term without any condition matches no node, and must not come to match some.
    terms = [term for term in asked if any(term.values())]
    if node.get(_REQUIRED) and not terms:
        return affinity
    above, below = (str(end) for end in find_range(hertz))
    least = {"key": TSC_FREQUENCY, "operator": "Gt", "values": [above]}
    alternatives = (
        [least, {"key": TSC_FREQUENCY, "operator": "Lt", "values": [below]}],
        [least, {"key": TSC_SCALABLE, "operator": "In", "values": ["true"]}],
    )
    made = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), *alternative]}
        for term in terms or [{}]
        for alternative in alternatives
    ]
    return {**affinity, "nodeAffinity": {**node, _REQUIRED: {"nodeSelectorTerms": made}}}


def _prefer(weight: int, label: str) -> JsonObject:
    return {
        "weight": weight,
        "preference": {"matchExpressions": [{"key": label, "operator": "In", "values": ["true"]}]},
    }


def _is_of_node(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest has the CPU of its node: libvirt's description of it, or all of it."""
    cpu = vmi.spec.domain.cpu
    return has_host_model(vmi.spec.domain) or (cpu is not None and cpu.model == "host-passthrough")


def _select(labels: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key.startswith(prefixes)}


def _rename(labels: Mapping[str, str], prefix: str, other: str) -> dict[str, str]:
    """Those with a prefix, with another one."""
    return {other + key.removeprefix(prefix): value for key, value in labels.items() if key.startswith(prefix)}
