"""The networks that a Pod joins besides its own, where the node agent plays Multus.

Called by the Pod's place when it is made, again and again until all are joined, and when the Pod's annotation has
changed while it runs. Reads that annotation and the NetworkAttachmentDefinitions that it names; the links are made by
`kvedge.network.lan`. What a Pod has joined it keeps as it is, whatever becomes of the definition, as a running guest is
on it, until the annotation no longer names it, or has another network for the same NIC.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_config import LanConfigError
from kvedge.network.lan.lan_nics import Port, attach_nic, detach_nics, switch_nic, wanted_nic
from kvedge.network.lan.lan_plan import LanPort, number_of
from kvedge.network.lan.lan_ports import lan_ports
from kvedge.network.lan.macvtap_ports import macvtap_ports
from kvedge.network.pods.attachments import POD_INTERFACE, Attachment, NodeNetworkConfig
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import (
    DEFAULT_NETWORK,
    NETWORK_STATUS,
    NETWORKS,
    JoinedNetwork,
    Selection,
    SelectionError,
    check_namespace,
    missing_network,
    network_status,
    parse_status,
    parse_wanted,
)

Reader = Callable[[str, str], NetworkAttachmentDefinition | None]


class PodNetworkError(Exception):
    """A network cannot be joined: the text names it, and the remedy."""


def join_networks(config: NodeNetworkConfig, pod: Pod, own: Attachment, read: Reader) -> str:
    """Give a Pod, which is on the Pod network already, its other NICs; what to tell of them, empty for none.

    Raises:
        PodNetworkError: when a network is not there, is not what this box can do, or its bridge cannot be joined.
        NetworkError: when the kernel refused.
        KubeError: when the API cannot be asked.
    """
    wanted, has = _leave_others(config, pod, own)
    # All are known before the first is made: a Pod is on all of its networks, or is not started.
    ports = [(selection, _port(selection, pod, own, has, read, selection.reference)) for selection in wanted]
    for selection, port in ports:
        try:
            attach_nic(config, port)
        except NetworkError as error:
            raise PodNetworkError(f"network {selection.reference}: {error}") from error
    return _describe_networks(config, own, ports)


def follow_networks(config: NodeNetworkConfig, pod: Pod, own: Attachment, read: Reader) -> tuple[str, str]:
    """Give a Pod that runs the NICs that its annotation names by now, where it names them, and take the others.

    What to tell of them, and why one could not be joined: it holds up no other one. A NIC that cannot be taken to
    another network stays where it is.

    Raises:
        PodNetworkError: when the annotation cannot be read; nothing is changed then.
        NetworkError: when a NIC could not be taken.
        KubeError: when the API cannot be asked.
    """
    wanted, has = _leave_others(config, pod, own)
    joined = {each.interface: each.name for each in parse_status(pod.metadata.annotations.get(NETWORK_STATUS, ""))}
    ports, complaint = [], ""
    for selection in wanted:
        present, before = has.get(selection.interface), joined.get(selection.interface, selection.reference)
        is_elsewhere = present is not None and not _is_on(present, selection.reference, before)
        try:
            port = _port(selection, pod, own, has, read, before)
            if present is not None and is_elsewhere:
                switch_nic(config, present, port)
            else:
                attach_nic(config, port)
        except (PodNetworkError, NetworkError) as error:
            at = f"network {selection.reference}: " if isinstance(error, NetworkError) else ""
            complaint = complaint or f"{at}{error}"
            if present is not None:
                ports.append((_on_network(selection, before), present))
        else:
            ports.append((selection, port))
    return _describe_networks(config, own, ports), complaint


def _on_network(selection: Selection, reference: str) -> Selection:
    namespace, _, name = reference.partition("/")
    return msgspec.structs.replace(selection, namespace=namespace, name=name)


def leave_networks(config: NodeNetworkConfig, netns: str, kept: Collection[str] = ()) -> None:
    """Take a Pod's other NICs away, all but those of these names; nothing when there are none.

    Raises:
        NetworkError: when the kernel refused.
    """
    detach_nics(config, netns, kept)


def _leave_others(config: NodeNetworkConfig, pod: Pod, own: Attachment) -> tuple[list[Selection], Mapping[str, Port]]:
    """What the Pod wants, and what it has of that, by the NIC's name."""
    if DEFAULT_NETWORK in pod.metadata.annotations:
        raise PodNetworkError(
            f"metadata.annotations[{DEFAULT_NETWORK}]: one box has no network in place of its Pod network; take"
            " `default: true` out of the VM's network"
        )
    try:
        wanted = parse_wanted(pod.metadata.annotations.get(NETWORKS, ""), pod.metadata.namespace)
    except SelectionError as error:
        raise PodNetworkError(str(error)) from error
    present: list[Port] = [*lan_ports(config, own.netns), *macvtap_ports(own.netns)]
    has = {port.interface: port for port in present}
    names = {selection.interface for selection in wanted}
    if has.keys() - names:
        leave_networks(config, own.netns, names)
    return wanted, {name: port for name, port in has.items() if name in names}


def _describe_networks(config: NodeNetworkConfig, own: Attachment, ports: Sequence[tuple[Selection, Port]]) -> str:
    if not ports:
        return ""
    ips = [each for each in (own.address, own.ipv6_address) if each]
    first = JoinedNetwork(name=config.bridge, interface=POD_INTERFACE, ips=ips, mac=own.mac, default=True)
    return network_status([first, *(_describe_port(selection, port) for selection, port in ports)])


def _port(selection: Selection, pod: Pod, own: Attachment, has: Mapping[str, Port], read: Reader, told: str) -> Port:
    """The NIC that the Pod has, where that is on the network already; otherwise a new one, of its definition.

    `told` is the network that was told of last, for a NIC that does not tell its own.
    """
    known = has.get(selection.interface)
    if known is not None and _is_on(known, selection.reference, told):
        return _settle(known)
    try:
        check_namespace(selection, pod.metadata.namespace)
    except SelectionError as error:
        raise PodNetworkError(str(error)) from error
    found = read(selection.namespace, selection.name)
    if found is None:
        raise PodNetworkError(missing_network(selection))
    try:
        made = wanted_nic(own.netns, selection.interface, selection.mac, found)
    except (LanConfigError, ValueError) as error:
        raise PodNetworkError(f"network {selection.reference}: {error}") from error
    return replace(made, number=number_of(selection.reference)) if isinstance(made, LanPort) else made


def _settle(port: Port) -> Port:
    """As it is wanted, whatever a switch that was cut short has left undone."""
    return replace(port, settled=True) if isinstance(port, LanPort) else port


def _is_on(port: Port, reference: str, told: str) -> bool:
    """Whether a NIC is on a network. Its alias says so, which a switch that was cut short has changed before anybody
    was told; one of an earlier version, or a macvtap, is where it was said to be."""
    if isinstance(port, LanPort) and port.number:
        return port.number == number_of(reference)
    return told == reference


def _describe_port(selection: Selection, port: Port) -> JoinedNetwork:
    ips = [port.address.partition("/")[0]] if isinstance(port, LanPort) and port.address else []
    return JoinedNetwork(name=selection.reference, interface=port.interface, ips=ips, mac=port.mac)
