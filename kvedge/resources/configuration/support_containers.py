"""Containers that support VMs, and what the KubeVirt object says of their CPU and memory.

Used by the controller where it makes such containers, and by the configuration that is read. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvedge.resources.types.core import ResourceRequirements
from kvedge.resources.values.quantities import Quantity, parse_quantity

# KubeVirt's names of them.
CONTAINER_DISK: Final = "container-disk"
HOTPLUG_DISK: Final = "hotplug-disk"
SIDECAR: Final = "sidecar"
VIRTIOFS: Final = "virtiofs"
VM_EXPORT: Final = "vmexport"
NAMES_HERE: Final = (CONTAINER_DISK, HOTPLUG_DISK, SIDECAR, VIRTIOFS, VM_EXPORT)
# The launcher keeps the console's log itself.
_KUBEVIRTS_ALONE: Final = "guest-console-log"
SUPPORT_TYPES: Final = frozenset((*NAMES_HERE, _KUBEVIRTS_ALONE))

# By the type of the container.
Support = Mapping[str, ResourceRequirements]
NOTHING_SAID: Final[Support] = MappingProxyType({})
_NOTHING: Final = ResourceRequirements()


def support_resources(
    support: Support,
    kind: str,
    requests: Mapping[str, Quantity],
    limits: Mapping[str, Quantity],
    *,
    guaranteed: bool = False,
) -> ResourceRequirements:
    """What a container asks for and may use: what the KubeVirt object says, else these.

    In a Pod that is `guaranteed` what it has, each container asks for as much as it may have. Elsewhere none asks for
    more than it may have: who sets a lower limit alone need not know what was asked for.
    """
    given = support.get(kind, _NOTHING)
    most = {**limits, **given.limits}
    wanted = {**requests, **given.requests}
    for name, limit in most.items():
        is_above = name in wanted and parse_quantity(wanted[name]) > parse_quantity(limit)
        if guaranteed or is_above:
            wanted[name] = limit
    return ResourceRequirements(requests=wanted, limits=most)
