"""The NICs that a guest has for itself, virtual functions of the node's cards, as its status shows them.

Called by the handler's sync. Pure. Nothing of them is made in the Pod: the card has the MAC, the guest's agent knows
the addresses, and nobody but the guest sees link and queues.
"""

from __future__ import annotations

from kvedge.handler.guest.vmi_status import GuestNic
from kvedge.resources.host_devices.claimed_devices import claimed_networks
from kvedge.resources.identity import plain_mac
from kvedge.resources.types.guest_nics import interface_mac
from kvedge.resources.types.pod_networks import pod_nic, sriov_interfaces
from kvedge.resources.types.vmi import VirtualMachineInstance


def function_nics(vmi: VirtualMachineInstance) -> tuple[GuestNic, ...]:
    """Those on networks of Multus, then those that claims have; each in the VMI's order.

    Nobody tells a card the MAC of one that a claim has: it is the guest's where its agent says so.
    """
    claimed = claimed_networks(vmi.spec)
    of_claims = (item for item in vmi.spec.domain.devices.interfaces if item.sriov is not None and item.name in claimed)
    return tuple(
        GuestNic(item.name, interface_mac(vmi, item), (), pod_nic(item.name), queues=0, link_state="")
        for _, item, _ in sriov_interfaces(vmi)
    ) + tuple(GuestNic(item.name, plain_mac(item.mac_address), (), "", queues=0, link_state="") for item in of_claims)
