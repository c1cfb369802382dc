"""`<vcpu>` and the topology behind it.

Touches nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.quantities import Quantity, QuantityError, parse_quantity
from kvedge.resources.types.domain import Cpu, DomainSpec


class Topology(NamedTuple):
    """How the virtual CPUs are arranged."""

    sockets: int
    cores: int
    threads: int

    @property
    def vcpus(self) -> int:
        """How many there are."""
        return self.sockets * self.cores * self.threads


def topology_of(spec: DomainSpec) -> Topology:
    """The topology: zeros count as one; when none of the three is set, one socket for each CPU of limit or request.

    Raises:
        ConversionError: when the amount of CPUs in the resources is no quantity.
    """
    cpu = spec.cpu or Cpu()
    if cpu.sockets or cpu.cores or cpu.threads:
        return Topology(cpu.sockets or 1, cpu.cores or 1, cpu.threads or 1)
    for kind, amounts in (("limits", spec.resources.limits), ("requests", spec.resources.requests)):
        if "cpu" in amounts:
            return Topology(_whole_cpus(f"spec.domain.resources.{kind}.cpu", amounts["cpu"]), 1, 1)
    return Topology(1, 1, 1)


def add_vcpu(domain: Element, spec: DomainSpec) -> None:
    """All CPUs are there from the start: sockets above them (`maxSockets`) wait for CPU hotplug."""
    add(domain, "vcpu", topology_of(spec).vcpus, placement="static")


def _whole_cpus(field: str, value: Quantity) -> int:
    try:
        return max(1, math.ceil(parse_quantity(value)))
    except QuantityError as error:
        raise ConversionError(field, str(error), "correct the quantity") from error
