"""Whether another guest of this node has a guest's MAC already.

Called before a guest's network, or a NIC that comes to a guest which runs, is made. Pure. KubeVirt lets two VMIs have
one MAC; on a CNI whose Pods share a link, a bridge or a LAN, each then takes the other's frames, and both look broken.
So the second one of a node waits, and says for whom. Guests of other nodes are not seen; the MAC of a masqueraded one
never leaves its Pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.network.errors import MacInUseError
from kvedge.resources.types.guest_nics import bridged_interfaces, interface_mac
from kvedge.resources.types.pod_networks import attachment_of, lan_interfaces, sriov_interfaces
from kvedge.resources.types.vmi import DOMAIN_SOURCE, VirtualMachineInstance


def check_macs(vmi: VirtualMachineInstance, others: Iterable[VirtualMachineInstance]) -> None:
    """Raises MacInUseError when an earlier guest of `others`, or one that runs, has a MAC of this one's."""
    ours = _macs(vmi)
    for other in others:
        if other.metadata.uid == vmi.metadata.uid or other.is_final or not _comes_before(other, vmi):
            continue
        for _, mac in sorted(ours & _macs(other)):
            raise _in_use(mac, other)


def check_coming_mac(vmi: VirtualMachineInstance, name: str, others: Iterable[VirtualMachineInstance]) -> None:
    """Raises MacInUseError when a guest of `others` has the MAC of a NIC that comes to a guest which runs."""
    coming = next(((network, mac) for item, network, mac in _nics(vmi) if item == name), None)
    for other in others:
        if other.metadata.uid == vmi.metadata.uid or other.is_final:
            continue
        held = {row.name for row in other.status.interfaces if DOMAIN_SOURCE in row.sources}
        if any(item in held and (network, mac) == coming for item, network, mac in _nics(other)):
            raise _in_use(coming[1] if coming else "", other)


def _in_use(mac: str, other: VirtualMachineInstance) -> MacInUseError:
    return MacInUseError(
        "cannot give the guest its MAC",
        subject=mac,
        why=f"VMI {other.metadata.namespace}/{other.metadata.name} of this node has it",
        remedy="give one of them another macAddress, or end the other one",
    )


def _macs(vmi: VirtualMachineInstance) -> set[tuple[str, str]]:
    """(network, MAC): on two networks one MAC is nobody's trouble. The Pod network is the one without a name."""
    return {(network, mac) for _, network, mac in _nics(vmi)}


def _nics(vmi: VirtualMachineInstance) -> list[tuple[str, str, str]]:
    """Name, network and MAC of each."""
    own = [(interface.name, "", interface_mac(vmi, interface)) for interface in bridged_interfaces(vmi)]
    namespace = vmi.metadata.namespace
    return own + [
        (interface.name, "/".join(attachment_of(network, namespace)), interface_mac(vmi, interface))
        for _, interface, network in [*lan_interfaces(vmi), *sriov_interfaces(vmi)]
    ]


def _comes_before(other: VirtualMachineInstance, vmi: VirtualMachineInstance) -> bool:
    # A guest that runs is never told to stop; of two that do not yet, both workers have to find the same one.
    return _order(other) < _order(vmi)


def _order(vmi: VirtualMachineInstance) -> tuple[bool, str, str]:
    return vmi.status.phase not in ("Running", "Unknown"), vmi.metadata.creation_timestamp or "", vmi.metadata.uid
