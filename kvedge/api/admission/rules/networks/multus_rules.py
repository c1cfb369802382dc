"""Rules for networks besides the Pod's, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. What a network is, its NetworkAttachmentDefinition says, which may come
later than the VM: whether it is there, and which virtual functions it has, is seen when the VM starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, duplicate, required_cause
from kvedge.api.admission.rules.dns_names import dns_subdomain_complaints
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.names import SRIOV_PREFIX
from kvedge.resources.types.devices import ABSENT
from kvedge.resources.types.guest_nics import is_pods_own

_LONGEST_SHOWN: Final = 80


def attachments_have_names(subject: Subject) -> Iterator[Cause]:
    """`networkName` names an object: of the VM's own namespace, or of another one that is named as well."""
    for index, network in enumerate(subject.spec.networks):
        if network.multus is None:
            continue
        here = subject.at.at("networks").item(index)
        name = network.multus.network_name
        if not name:
            yield required_cause(here, "CNI delegating plugin must have a networkName")
            continue
        parts = name.split("/", 2)
        if len(parts) > 2 or any(dns_subdomain_complaints(part) for part in parts):
            at = here.at("multus", "networkName")
            yield Cause(at, f"{at} {name[:_LONGEST_SHOWN]!r} is neither a name nor namespace/name")


def one_network_is_the_pods_own(subject: Subject) -> Iterator[Cause]:
    """A network with `default: true` is in place of the cluster's: a Pod has one of the two."""
    networks, at = subject.spec.networks, subject.at.at("networks")
    defaults = [item for item in networks if item.multus is not None and item.multus.default]
    if len(defaults) > 1:
        yield Cause(at, "Multus CNI should only have one default network")
    if defaults and any(item.pod is not None for item in networks):
        yield Cause(at, "Pod network cannot be defined when Multus default network is defined")


def functions_are_of_networks_with_devices(subject: Subject) -> Iterator[Cause]:
    """Only a NetworkAttachmentDefinition besides the Pod's own network names the resource of a device plugin.

    KubeVirt accepts others, and its guests start without the NIC.
    """
    networks = {network.name: network for network in subject.spec.networks}
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        network = networks.get(interface.name)
        if interface.sriov is None or network is None:
            continue
        at = subject.devices_at.at("interfaces").item(index).at("sriov")
        if is_pods_own(network):
            yield Cause(at, f"{at} is not possible on the Pod's own network; use a network multus without default")


def functions_stay_as_they_are(subject: Subject) -> Iterator[Cause]:
    """The guest has the NIC: nobody else changes its link, takes it away, or answers its DHCP."""
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.sriov is None:
            continue
        at = subject.devices_at.at("interfaces").item(index)
        if interface.state and interface.state != ABSENT:
            said = f'"{interface.name}" interface\'s state "{interface.state}" is not supported for SR-IOV NICs'
            yield Cause(at.at("state"), said)
        if interface.dhcp_options is not None:
            here = at.at("dhcpOptions")
            yield Cause(here, f"{here} has no effect on an SR-IOV NIC; remove it, as its network's server answers")


def functions_have_names_of_their_own(subject: Subject) -> Iterator[Cause]:
    """A running domain's devices are found by names; that of a function is made of its interface's."""
    devices = subject.spec.domain.devices
    taken = {nic.name for nic in devices.interfaces} | {disk.name for disk in devices.disks}
    for index, interface in enumerate(devices.interfaces):
        if interface.sriov is not None and f"{SRIOV_PREFIX}{interface.name}" in taken:
            at = subject.devices_at.at("interfaces").item(index).at("name")
            other = f"{SRIOV_PREFIX}{interface.name}"
            yield duplicate(at, f"{at} {interface.name} of an SR-IOV NIC goes with no other device called {other}")


RULES: Final[tuple[Rule, ...]] = (
    attachments_have_names,
    one_network_is_the_pods_own,
    functions_are_of_networks_with_devices,
    functions_stay_as_they_are,
    functions_have_names_of_their_own,
)
