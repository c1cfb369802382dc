"""Which binding an interface of a VMI has, and what it is made by: the one place that decides.

Called by `guest_network` for each interface. Touches the Pod's network by `kvedge.network`, and the record's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kvedge.network.binding.bound_interface import BoundInterface
from kvedge.network.binding.bridge_binding import bind_pod_interface
from kvedge.network.binding.bridge_unbinding import unbind_pod_interface
from kvedge.network.binding.masquerade_binding import masquerade_pod_interface
from kvedge.network.binding.passt_binding import passt_pod_interface
from kvedge.network.binding.ready_tap import ready_tap
from kvedge.network.binding.sidecar_nic import sidecar_pod_interface
from kvedge.network.errors import UnsuitablePodError
from kvedge.network.nft.nft_nat_rules import TCP, UDP
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.configuration.configuration_bindings import BY_SIDECAR, MANAGED_TAP, TAP
from kvedge.resources.masquerade import SIDECAR_PORTS, BadGuestNetwork, GuestSubnet, guest_subnet, is_meshed
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.devices import Interface, Port
from kvedge.resources.types.guest_nics import interface_mac, nic_queues
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Network, PodNetwork
from kvedge.rpc.launcher_pb2 import Passt

_NO_PLUGINS: Final[Mapping[str, BindingPlugin]] = MappingProxyType({})
_OWNER: Final = (LAUNCHER_UID, LAUNCHER_GID)


def bind_nic(
    vmi: VirtualMachineInstance,
    place: tuple[int, Interface, str],
    netns: int,
    directory: Path,
    plugins: Mapping[str, BindingPlugin] = _NO_PLUGINS,
) -> BoundInterface:
    """Bind an interface to a NIC of the Pod; what is there already stays as it is.

    `place` is the interface, by its number in the VMI, and the name of the Pod's NIC; `directory` is where records of
    this VMI are kept, `plugins` the network binding plugins in force.

    Raises:
        NetworkError: when the kernel refused, or the namespace is not as it was left.
    """
    index, interface, pod_interface = place
    mac, queues = interface_mac(vmi, interface), nic_queues(vmi, interface)
    if interface.masquerade is not None:
        return masquerade_pod_interface(
            netns,
            guest_mac=mac,
            subnets=_subnets(vmi, interface),
            ports=frozenset(_number(port) for port in interface.ports),
            ranges=frozenset((_protocol(each.protocol), each.start, each.end) for each in interface.port_ranges),
            meshed=is_meshed(vmi),
            pod_interface=pod_interface,
            index=index,
            tap_owner=_OWNER,
            queues=queues,
        )
    if interface.passt_binding is not None:
        return passt_pod_interface(netns, guest_mac=mac, pod_interface=pod_interface)
    attachment = _attachment(interface, plugins)
    if attachment == BY_SIDECAR:
        return sidecar_pod_interface(netns, guest_mac=mac, pod_interface=pod_interface)
    if attachment == TAP:
        asked = bool(interface.mac_address)
        return ready_tap(netns, guest_mac=mac, asked_mac=asked, pod_interface=pod_interface, index=index)
    return bind_pod_interface(
        netns,
        pod_interface=pod_interface,
        index=index,
        guest_mac=mac,
        tap_owner=_OWNER,
        queues=queues,
        record=_record(directory, interface),
        serves=attachment != MANAGED_TAP,
    )


def passt_message(vmi: VirtualMachineInstance, interface: Interface, pod_interface: str) -> Passt:
    """What the launcher is to start passt with; without a list the guest has all ports, as with the other bindings."""
    numbers = [_number(port) for port in interface.ports]
    return Passt(
        nic=pod_interface,
        all_ports=not numbers,
        tcp=sorted({port for protocol, port in numbers if protocol != UDP}),
        udp=sorted({port for protocol, port in numbers if protocol == UDP}),
        kept=SIDECAR_PORTS if is_meshed(vmi) else (),
    )


def is_ready_made(interface: Interface, plugins: Mapping[str, BindingPlugin]) -> bool:
    """Whether a CNI plugin, or the node agent of one box, makes the guest's link: a tap, or a macvtap."""
    plugin = plugins.get(interface.binding.name) if interface.binding is not None else None
    return plugin is not None and plugin.attachment == TAP


def unbind_nic(place: tuple[int, Interface, str], netns: int, directory: Path) -> None:
    """Undo a bridge binding whose guest has released the NIC; nothing when nothing is left of it.

    Raises:
        NetworkError: when the kernel refused.
    """
    index, interface, pod_interface = place
    unbind_pod_interface(netns, pod_interface=pod_interface, index=index, record=_record(directory, interface))


def _record(directory: Path, interface: Interface) -> Path:
    return directory / f"{interface.name}.json"


def _attachment(interface: Interface, plugins: Mapping[str, BindingPlugin]) -> str | None:
    """By what a plugin joins the guest; None for an interface without one."""
    if interface.binding is None:
        return None
    plugin = plugins.get(interface.binding.name)
    if plugin is None:
        # Admission refuses it, unless it was asleep or the plugin has gone since.
        raise UnsuitablePodError(
            "cannot bind",
            subject=interface.name,
            why=f"the KubeVirt object has no network binding plugin {interface.binding.name}",
            remedy="put it into spec.configuration.network.binding",
        )
    return plugin.attachment


def _subnets(vmi: VirtualMachineInstance, interface: Interface) -> dict[int, GuestSubnet]:
    pod = Network(name=interface.name, pod=PodNetwork())
    network = next((each for each in vmi.spec.networks if each.name == interface.name), pod)
    try:
        return {version: guest_subnet(network, version) for version in (4, 6)}
    except BadGuestNetwork as error:
        # Admission refuses it, unless it was asleep.
        raise UnsuitablePodError("cannot bind", subject=interface.name, why=str(error)) from error


def _number(port: Port) -> tuple[int, int]:
    return _protocol(port.protocol), port.port


def _protocol(name: str) -> int:
    return UDP if name == "UDP" else TCP
