"""Which of a VMI's interfaces are on the Pod network, which MAC each has, and how many queues.

Called by the controller, which tells the Pod's NIC, by the handler, which makes the guest's tap, and by the launcher,
which opens it. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.identity import guest_mac, plain_mac
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Network
from kvedge.resources.vmi_facts import vcpu_count

# What CNI calls a Pod's own NIC.
POD_NIC: Final = "eth0"
_VM: Final = "VirtualMachine"
# The kernel's limit for a tap.
_MOST_QUEUES: Final = 256


def pod_interfaces(vmi: VirtualMachineInstance) -> list[tuple[int, Interface]]:
    """The interfaces bound to the Pod's own NIC, by a bridge, a plugin, translation or passt, with their place."""
    pod_networks = {network.name for network in vmi.spec.networks if is_pods_own(network)}
    interfaces = enumerate(vmi.spec.domain.devices.interfaces)
    return [(index, item) for index, item in interfaces if item.name in pod_networks and _is_bound(item)]


def is_pods_own(network: Network) -> bool:
    """Whether this is the network of the Pod's own NIC: the cluster's, or one of Multus in its place."""
    return network.pod is not None or (network.multus is not None and network.multus.default)


def bridged_interfaces(vmi: VirtualMachineInstance) -> list[Interface]:
    """Those of which the guest's MAC is seen on the Pod network."""
    return [item for _, item in pod_interfaces(vmi) if is_bridged(item)]


def _is_bound(interface: Interface) -> bool:
    return interface.masquerade is not None or interface.passt_binding is not None or is_bridged(interface)


def speaks_by_passt(vmi: VirtualMachineInstance) -> bool:
    """Whether a NIC of the guest is served by passt, which the launcher starts beside QEMU."""
    return any(item.passt_binding is not None for _, item in pod_interfaces(vmi))


def is_bridged(interface: Interface) -> bool:
    """Whether the guest speaks with its own MAC on the Pod's NIC: by a bridge, or by a binding plugin."""
    return interface.bridge is not None or interface.binding is not None


def interface_mac(vmi: VirtualMachineInstance, interface: Interface) -> str:
    """The guest's MAC: as asked for, else the one it has, else derived from the VM, or from the VMI that has none.

    It has one that follows from another owner when a VM has taken over a VMI that ran already. A ReplicaSet is no VM:
    each of its VMIs has a MAC of its own.
    """
    known = (each.mac for each in vmi.status.interfaces if each.name == interface.name and each.mac)
    owner = vmi.metadata.controller_reference()
    uid = owner.uid if owner is not None and owner.kind == _VM else vmi.metadata.uid
    return find_mac(interface, uid, next(known, ""))


def find_mac(interface: Interface, owner_uid: str, known: str = "") -> str:
    """The MAC as asked for, else the one that is known, else derived from the owner, in the form that links have."""
    return plain_mac(interface.mac_address or known or guest_mac(owner_uid, interface.name))


def nic_queues(vmi: VirtualMachineInstance, interface: Interface) -> int:
    """How many queues the tap of an interface has: one for each CPU when a VMI wants it, for virtio only.

    The handler makes the tap and QEMU opens it, so that both count them here: the kernel refuses one queue of a tap
    made for several, and the other way round.
    """
    wanted = vmi.spec.domain.devices.network_interface_multiqueue
    if not wanted or interface.model not in {"", "virtio"}:
        return 1
    return min(vcpu_count(vmi.spec.domain), _MOST_QUEUES)
