"""Reserves an address for each interface of a VMI on networks that give addresses, before its Pod joins them.

Called when a launcher's Pod is made, and when one that runs is to join another network. Reads and patches
NetworkAttachmentDefinitions, one by one. There is one active controller, so that nobody else gives addresses away;
whoever edits the annotation meanwhile wins, and the pass is repeated.
"""

from __future__ import annotations

import contextlib
import logging

from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_config import LanConfigError, parse_lan_config
from kvedge.resources.identity import guest_mac
from kvedge.resources.lan_reservations import (
    RESERVATIONS,
    Reservation,
    ReservationsError,
    encode_reservations,
    reservations_of,
)
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.guest_nics import interface_mac
from kvedge.resources.types.pod_networks import attachment_of, lan_interfaces
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)


class NoAddress(Exception):
    """A network has no address for an interface: the text names the field and the remedy."""


def reserve_addresses(vmi: VirtualMachineInstance, client: KubeClient) -> None:
    """Have an address reserved for each interface that needs one; nothing for those that have.

    Raises:
        NoAddress: when a network has none left, or its reservations cannot be read.
        KubeError: when a network cannot be read or changed now.
    """
    for index, interface, network_name in lan_interfaces(vmi):
        namespace, name = attachment_of(network_name, vmi.metadata.namespace)
        try:
            _reserve(vmi, interface, client.get(NetworkAttachmentDefinition, namespace, name), client)
        except NotFound:
            # Whoever joins the Pod says so.
            continue
        except Forbidden as error:
            facts = {"network": f"{namespace}/{name}", "error": str(error), "remedy": "apply k3s/rbac again"}
            log.warning("the controller may not reserve addresses", extra={"facts": facts})
        except ReservationsError as error:
            raise NoAddress(
                f"spec.domain.devices.interfaces[{index}] ({interface.name}): network {namespace}/{name}: {error}"
            ) from error


def _reserve(
    vmi: VirtualMachineInstance, interface: Interface, network: NetworkAttachmentDefinition, client: KubeClient
) -> None:
    try:
        addresses = parse_lan_config(network.spec.config).addresses
    except LanConfigError:
        # As above; macvtaps, too, have no addresses of ours.
        return
    mac = interface_mac(vmi, interface)
    if addresses is None or mac in (known := reservations_of(network)):
        return
    address = addresses.free_address({each.address for each in known.values()})
    if address is None:
        known = {other: each for other, each in known.items() if not _is_gone(other, each, client)}
        address = addresses.free_address({each.address for each in known.values()})
    if address is None:
        raise ReservationsError(_all_taken(addresses))
    meta = network.metadata
    known[mac] = Reservation(address, f"{vmi.metadata.namespace}/{vmi.metadata.name}")
    body = {
        "metadata": {
            "resourceVersion": meta.resource_version,
            "annotations": {RESERVATIONS: encode_reservations(known)},
        }
    }
    client.patch(NetworkAttachmentDefinition, meta.namespace, meta.name, MergePatch(body))


def _all_taken(addresses: LanAddresses) -> str:
    return (
        f"all addresses of {addresses.first}-{addresses.last} are reserved; delete VMs that are not needed, take"
        f" reservations out of metadata.annotations[{RESERVATIONS}], or make a network with more"
    )


def _is_gone(mac: str, held: Reservation, client: KubeClient) -> bool:
    """Whether nobody needs it: neither the VM for which it was made nor its VMI has an interface of this MAC any more.

    A VM that was made anew under the same name has other MACs, unless it names them.
    """
    namespace, slash, name = held.vm.partition("/")
    if not slash:
        return False
    with contextlib.suppress(NotFound):
        vmi = client.get(VirtualMachineInstance, namespace, name)
        if mac in {interface_mac(vmi, each) for each in vmi.spec.domain.devices.interfaces}:
            return False
    with contextlib.suppress(NotFound):
        vm = client.get(VirtualMachine, namespace, name)
        interfaces = vm.spec.template.spec.domain.devices.interfaces if vm.spec.template is not None else []
        return mac not in {_mac_of_vm(vm, each) for each in interfaces}
    return True


def _mac_of_vm(vm: VirtualMachine, interface: Interface) -> str:
    """Of the VM's next run, as `interface_mac` has it."""
    given = interface.mac_address or guest_mac(vm.metadata.uid, interface.name)
    return given.lower().replace("-", ":")
