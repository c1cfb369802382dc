"""`<vcpu>`, and the topology behind it for the files of this folder.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.vmi_facts import Topology, UnreadableCpus, most_sockets, topology_of


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


def largest_topology(spec: DomainSpec, architecture: str) -> Topology:
    """The topology with all sockets that the guest may get while it runs.

    Raises:
        ConversionError: as :func:`domain_topology`.
    """
    return domain_topology(spec)._replace(sockets=most_sockets(spec, architecture))


def add_vcpu(domain: Element, spec: DomainSpec, architecture: str) -> None:
    """The guest starts with its sockets; those above them, up to `maxSockets`, are plugged in while it runs.

    The first socket stays in the guest: QEMU makes CPUs that can be taken out only after it.
    """
    present, most = domain_topology(spec), largest_topology(spec, architecture)
    if present == most:
        add(domain, "vcpu", present.vcpus, placement="static")
        return
    add(domain, "vcpu", most.vcpus, placement="static", current=present.vcpus)
    listed = add(domain, "vcpus")
    for number in range(most.vcpus):
        enabled = "yes" if number < present.vcpus else "no"
        hotpluggable = "no" if number < present.cores * present.threads else "yes"
        add(listed, "vcpu", id=number, enabled=enabled, hotpluggable=hotpluggable)
