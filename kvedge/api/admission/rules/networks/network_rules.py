"""Rules for interfaces and networks, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. Bindings that kvedge does not have yet are refused by not_yet_rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import (
    Cause,
    Field,
    duplicate,
    not_found_cause,
    required_cause,
    unsupported_cause,
)
from kvedge.api.admission.rules.storage.disk_rules import pci_address
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.configuration_bindings import live_plugins
from kvedge.resources.identity import plain_mac
from kvedge.resources.masquerade import BadGuestNetwork, parse_guest_subnet
from kvedge.resources.types.devices import ABSENT, NIC_MODELS, NIC_STATES, DhcpOptions, Interface, Port
from kvedge.resources.types.guest_nics import is_pods_own
from kvedge.resources.values.ip_addresses import parse_ipv4

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2}(?:\1[0-9a-fA-F]{2}){4})")
# What else Go's parser takes for a link-layer address: 8 bytes (EUI-64) and 20 (InfiniBand).
_LONG_MAC: Final = re.compile(
    r"[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2}(?:\1[0-9a-fA-F]{2}){6}(?:(?:\1[0-9a-fA-F]{2}){12})?)"
)
_BINDINGS: Final = ("bridge", "masquerade", "sriov", "slirp", "macvtap", "passt", "passt_binding", "binding")
_DISCONTINUED: Final = {"slirp": "Slirp", "macvtap": "Macvtap", "passt": "Passt"}
_INSTEAD: Final = {
    "macvtap": ": use `binding: {name: macvtap}`, and domainAttachmentType tap for that plugin in the KubeVirt object"
}
# The Pod's own side of the bridge has this MAC.
_RESERVED_MAC: Final = "02:00:00:00:00:00"
_PRIVATE_OPTIONS: Final = range(224, 255)
_MOST: Final = 256
# libvirt's: it names NICs eno1 to eno16383.
_LARGEST_ACPI_INDEX: Final = 16383
# One DHCP option holds no more bytes.
_LONGEST_TEXT: Final = 255


def networks_have_one_name_and_type(subject: Subject) -> Iterator[Cause]:
    """Names are unique, and each network says what it is."""
    networks, at = subject.spec.networks, subject.at.at("networks")
    if len(networks) > _MOST:
        yield Cause(at, f"{at} list exceeds the {_MOST} element limit in length")
    seen: set[str] = set()
    used = {interface.name for interface in subject.spec.domain.devices.interfaces}
    for index, network in enumerate(networks):
        here = at.item(index)
        if network.name in seen:
            text = f'Network with name "{network.name}" already exists, every network must have a unique name'
            yield duplicate(here.at("name"), text)
        seen.add(network.name)
        types = [kind for kind in (network.pod, network.multus, network.resource_claim) if kind is not None]
        if not types:
            yield required_cause(here, "should have a network type")
        elif len(types) > 1:
            yield Cause(here, "should have only one network type")
        if network.name not in used:
            yield not_found_cause(here.at("name"), f"{here.at('name')} '{network.name}' not found.")
    if sum(network.pod is not None for network in networks) > 1:
        interfaces = subject.devices_at.at("interfaces")
        yield duplicate(interfaces, f"more than one interface is connected to a pod network in {interfaces}")


def interfaces_have_names_and_networks(subject: Subject) -> Iterator[Cause]:
    """Each interface joins one network of its name, and no two the same."""
    interfaces, at = subject.spec.domain.devices.interfaces, subject.devices_at.at("interfaces")
    if len(interfaces) > _MOST:
        yield Cause(at, f"{at} list exceeds the {_MOST} element limit in length")
    networks = {network.name for network in subject.spec.networks}
    seen: set[str] = set()
    for index, interface in enumerate(interfaces):
        here = at.item(index).at("name")
        if interface.name in seen:
            yield duplicate(here, "Only one interface can be connected to one specific network")
        seen.add(interface.name)
        if interface.name not in networks:
            yield not_found_cause(here, f"{here} '{interface.name}' not found.")
        if not _NAME.fullmatch(interface.name):
            allowed = "alphabetical characters, numbers, dashes (-) or underscores (_)"
            yield Cause(here, f"Network interface name can only contain {allowed}")


def interfaces_are_possible(subject: Subject) -> Iterator[Cause]:
    """Binding, model, addresses and state of each interface."""
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        at = subject.devices_at.at("interfaces").item(index)
        yield from _binding(interface, at)
        if interface.model and interface.model not in NIC_MODELS:
            text = f"interface {at.at('name')} uses model {interface.model} that is not supported."
            yield unsupported_cause(at.at("model"), text)
        yield from _mac(interface, at)
        yield from pci_address(interface.pci_address, at.at("pciAddress"), f"interface {at.at('name')}")
        if interface.state not in NIC_STATES:
            text = f"logical {interface.name} interface state value is unsupported: {interface.state}"
            yield unsupported_cause(at.at("state"), text)
        if not 0 <= interface.acpi_index <= _LARGEST_ACPI_INDEX:
            yield Cause(
                at.at("acpiIndex"), f"{at.at('acpiIndex')} must be from 1 to {_LARGEST_ACPI_INDEX}, or 0 for none."
            )
        yield from _ports(interface.ports, at.at("ports"))
        if interface.dhcp_options is not None:
            yield from _dhcp(interface.dhcp_options, at.at("dhcpOptions"))


def absent_interfaces_can_go(subject: Subject) -> Iterator[Cause]:
    """A guest releases only what it can get again while it runs: a NIC on another network than the Pod's, by a bridge
    or by a plugin that makes a link."""
    plugins = live_plugins(subject.cluster.configuration.bindings)
    on_pod_network = {network.name for network in subject.spec.networks if is_pods_own(network)}
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.state != ABSENT:
            continue
        at = subject.devices_at.at("interfaces").item(index).at("state")
        said = f'"{interface.name}" interface\'s state "{ABSENT}" is'
        if interface.bridge is None and (interface.binding is None or interface.binding.name not in plugins):
            yield Cause(at, f"{said} supported only for bridge binding")
        if interface.name in on_pod_network:
            yield Cause(at, f"{said} not supported on default networks")


def macs_are_unique(subject: Subject) -> Iterator[Cause]:
    """Two NICs of one guest with one MAC would both get its address."""
    seen: set[str] = set()
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        mac = plain_mac(interface.mac_address)
        if mac and mac in seen:
            at = subject.devices_at.at("interfaces").item(index).at("macAddress")
            yield duplicate(at, f"{at} {interface.mac_address} is used by another interface of this VM")
        seen.add(mac)


def acpi_indexes_are_unique(subject: Subject) -> Iterator[Cause]:
    """Linux names a NIC by its ACPI index; libvirt takes each index once."""
    seen = {0}
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.acpi_index and interface.acpi_index in seen:
            at = subject.devices_at.at("interfaces").item(index).at("acpiIndex")
            yield duplicate(at, f"{at} {interface.acpi_index} is that of another interface of this VM")
        seen.add(interface.acpi_index)


def _binding(interface: Interface, at: Field) -> Iterator[Cause]:
    given = [name for name in _BINDINGS if getattr(interface, name) is not None]
    if len(given) != 1:
        yield Cause(at, f"logical {interface.name} interface must have exactly one binding method or binding plugin")
    for name in given:
        if name in _DISCONTINUED:
            text = f"{_DISCONTINUED[name]} network binding has been discontinued since v1.3"
            yield unsupported_cause(at.at(name), f"{text}{_INSTEAD.get(name, '')}")


def is_mac_address(text: str) -> bool:
    """Whether a text is a MAC address that an interface can have."""
    return _MAC.fullmatch(text) is not None


def _mac(interface: Interface, of: Field) -> Iterator[Cause]:
    address, at = interface.mac_address, of.at("macAddress")
    if not address:
        return
    name = of.at("name")
    if _LONG_MAC.fullmatch(address):
        yield Cause(at, f"interface {name} has MAC address ({address}) that is too long.")
    elif not _MAC.fullmatch(address):
        yield Cause(at, f"interface {name} has malformed MAC address ({address}).")
    elif plain_mac(address) == _RESERVED_MAC:
        yield Cause(at, "The requested MAC address is reserved for the in-pod bridge. Please choose another one.")
    elif int(address[:2], 16) & 1:
        yield Cause(at, f"interface {name} has a multicast MAC address ({address}); use a unicast one")


def _ports(ports: list[Port], at: Field) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = at.item(index)
        if port.port == 0:
            yield required_cause(here, "Port field is mandatory.")
        elif not 0 < port.port < 65536:
            yield Cause(here, "Port field must be in range 0 < x < 65536.")
        if port.protocol not in ("", "TCP", "UDP"):
            yield Cause(here.at("protocol"), "Unknown protocol, only TCP or UDP allowed")
        if not port.name:
            continue
        if port.name in seen:
            yield duplicate(here.at("name"), f"Duplicate name of the port: {port.name}")
        seen.add(port.name)
        if not _PORT_NAME.fullmatch(port.name) or "--" in port.name:
            yield Cause(here.at("name"), f"Invalid name of the port: {port.name}")


def _dhcp(options: DhcpOptions, at: Field) -> Iterator[Cause]:
    if any(not _is_ipv4(server) for server in options.ntp_servers):
        yield Cause(at.at("ntpServers"), "NTP servers must be a list of valid IPv4 addresses.")
    texts = {"bootFileName": options.boot_file_name, "tftpServerName": options.tftp_server_name}
    texts |= {f"privateOptions[{n}].value": each.value for n, each in enumerate(options.private_options)}
    for name, text in texts.items():
        if not text.isascii() or len(text) > _LONGEST_TEXT:
            yield Cause(at.at(name), f"{at.at(name)} must be ASCII text of at most {_LONGEST_TEXT} characters")
    numbers = [option.option for option in options.private_options]
    if any(number not in _PRIVATE_OPTIONS for number in numbers):
        yield Cause(at, "provided DHCPPrivateOptions are out of range, must be in range 224 to 254")
    if len(set(numbers)) != len(numbers):
        yield duplicate(at, "Found Duplicates: you have provided duplicate DHCPPrivateOptions")


def _is_ipv4(text: str) -> bool:
    try:
        parse_ipv4(text)
    except ValueError:
        return False
    return True


def bridge_on_pod_network_is_permitted(subject: Subject) -> Iterator[Cause]:
    """The cluster's administrator may forbid bridges on the pod network."""
    if subject.cluster.configuration.permit_bridge_on_pod_network:
        return
    on_pod_network = {network.name for network in subject.spec.networks if network.pod is not None}
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.bridge is not None and interface.name in on_pod_network:
            at = subject.devices_at.at("interfaces").item(index).at("name")
            yield Cause(at, "Bridge on pod network configuration is not enabled under kubevirt-config")


def masquerade_is_of_the_pod_network(subject: Subject) -> Iterator[Cause]:
    """Masquerade shares the Pod's address, which only the pod network has."""
    on_pod_network = {network.name for network in subject.spec.networks if network.pod is not None}
    known = {network.name for network in subject.spec.networks}
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.masquerade is not None and interface.name in known - on_pod_network:
            at = subject.devices_at.at("interfaces").item(index).at("name")
            yield Cause(at, "Masquerade interface only implemented with pod network")


def guest_networks_have_room(subject: Subject) -> Iterator[Cause]:
    """A masqueraded guest's own network has an address for its router and one for the guest."""
    for index, network in enumerate(subject.spec.networks):
        if network.pod is None:
            continue
        at = subject.at.at("networks").item(index).at("pod")
        given = (
            ("vmNetworkCIDR", network.pod.vm_network_cidr, 4),
            ("vmIPv6NetworkCIDR", network.pod.vm_ipv6_network_cidr, 6),
        )
        for name, text, version in given:
            if not text:
                continue
            try:
                parse_guest_subnet(text, version)
            except BadGuestNetwork as error:
                yield Cause(at.at(name), str(error))


def binding_plugins_are_configured(subject: Subject) -> Iterator[Cause]:
    """The KubeVirt object must define a plugin; KubeVirt itself checks that only when it makes the Pod."""
    known = subject.cluster.configuration.bindings
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.binding is None or interface.binding.name in known:
            continue
        at = subject.devices_at.at("interfaces").item(index).at("binding", "name")
        yield not_found_cause(
            at,
            f"unable to find the network binding plugin '{interface.binding.name[:80]}' in Kubevirt configuration:"
            " add it to spec.configuration.network.binding of the KubeVirt object",
        )


RULES: Final[tuple[Rule, ...]] = (
    binding_plugins_are_configured,
    networks_have_one_name_and_type,
    interfaces_have_names_and_networks,
    interfaces_are_possible,
    bridge_on_pod_network_is_permitted,
    masquerade_is_of_the_pod_network,
    guest_networks_have_room,
    absent_interfaces_can_go,
    macs_are_unique,
    acpi_indexes_are_unique,
)
