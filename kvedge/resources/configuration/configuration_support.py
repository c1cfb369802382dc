"""CPU and memory of containers that support VMs, from the KubeVirt object to the configuration in force.

Part of configuration_reading.py. Pure. An amount that cannot be used is a finding and counts as not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kvedge.resources.configuration.configuration_checks import Checks
from kvedge.resources.configuration.support_containers import NAMES_HERE, SUPPORT_TYPES
from kvedge.resources.types.core import ResourceRequirements
from kvedge.resources.types.kubevirt_configuration import SupportContainerResources
from kvedge.resources.values.quantities import Quantity

_AT: Final = "spec.configuration.supportContainerResources"
_NAMES: Final = ("cpu", "memory")


def read_support(given: Sequence[SupportContainerResources], checks: Checks) -> dict[str, ResourceRequirements]:
    """What each type of container is given; the first entry of a type counts, as in KubeVirt."""
    found: dict[str, ResourceRequirements] = {}
    for index, entry in enumerate(given):
        at = f"{_AT}[{index}]"
        if entry.type not in SUPPORT_TYPES:
            checks.note_invalid(f"{at}.type", f"{entry.type!r} is no type; use {', '.join(NAMES_HERE)}")
        elif entry.type not in found:
            parts = entry.resources
            found[entry.type] = ResourceRequirements(
                requests=dict(_amounts(f"{at}.resources.requests", parts.requests, checks)),
                limits=dict(_amounts(f"{at}.resources.limits", parts.limits, checks)),
            )
    return found


def _amounts(at: str, given: Mapping[str, Quantity], checks: Checks) -> Iterator[tuple[str, Quantity]]:
    """Those that say something: an amount of 0 leaves it as it is, as in KubeVirt."""
    for name in _NAMES:
        amount = checks.amount(f"{at}.{name}", given.get(name), above_zero=False)
        if amount:
            yield name, given[name]
