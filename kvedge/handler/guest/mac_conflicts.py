"""Whether another guest of this node has a guest's MAC already.

Called by the sync loop before it makes a guest's network. Pure. KubeVirt lets two VMIs have one MAC; on a CNI whose
Pods share a link, a bridge or a LAN, each then takes the other's frames, and both look broken. So the second one of a
node waits, and says for whom. Guests of other nodes are not seen; the MAC of a masqueraded one
never leaves its Pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.network.errors import MacInUseError
from kvedge.resources.types.guest_nics import bridged_interfaces, interface_mac
from kvedge.resources.types.pod_networks import attachment_of, lan_interfaces
from kvedge.resources.types.vmi import VirtualMachineInstance


def check_macs(vmi: VirtualMachineInstance, others: Iterable[VirtualMachineInstance]) -> None:
    """Raises MacInUseError when an earlier guest of `others`, or one that runs, has a MAC of this one's."""
    ours = _macs(vmi)
    for other in others:
        if other.metadata.uid == vmi.metadata.uid or other.is_final or not _comes_before(other, vmi):
            continue
        for _, mac in sorted(ours & _macs(other)):
            raise MacInUseError(
                "cannot give the guest its MAC",
                subject=mac,
                why=f"VMI {other.metadata.namespace}/{other.metadata.name} of this node has it",
                remedy="give one of them another macAddress, or end the other one",
            )


def _macs(vmi: VirtualMachineInstance) -> set[tuple[str, str]]:
    """(network, MAC): on two networks one MAC is nobody's trouble. The Pod network is the one without a name."""
    own = {("", interface_mac(vmi, interface)) for interface in bridged_interfaces(vmi)}
    namespace = vmi.metadata.namespace
    lan = {
        ("/".join(attachment_of(network, namespace)), interface_mac(vmi, interface))
        for _, interface, network in lan_interfaces(vmi)
    }
    return own | lan


def _comes_before(other: VirtualMachineInstance, vmi: VirtualMachineInstance) -> bool:
    # A guest that runs is never told to stop; of two that do not yet, both workers have to find the same one.
    return _order(other) < _order(vmi)


def _order(vmi: VirtualMachineInstance) -> tuple[bool, str, str]:
    return vmi.status.phase not in ("Running", "Unknown"), vmi.metadata.creation_timestamp or "", vmi.metadata.uid
