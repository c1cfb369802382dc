"""`<vcpu>`, and the topology behind it for the files of this folder.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.vmi_facts import Topology, UnreadableCpus, topology_of


def domain_topology(spec: DomainSpec) -> Topology:
    """The guest's topology.

    Raises:
        ConversionError: when the amount of CPUs in the resources is no quantity.
    """
    try:
        return topology_of(spec)
    except UnreadableCpus as error:
        raise unreadable_cpus(error) from error


def unreadable_cpus(error: UnreadableCpus) -> ConversionError:
    """The converter's own error for such an amount."""
    return ConversionError(error.field, str(error), "correct the quantity")


def add_vcpu(domain: Element, spec: DomainSpec) -> None:
    """All CPUs are there from the start: sockets above them (`maxSockets`) wait for CPU hotplug."""
    add(domain, "vcpu", domain_topology(spec).vcpus, placement="static")
