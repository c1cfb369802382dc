"""Reserves an address for each interface of a VMI on networks that give addresses, before its Pod joins them.

Held by the VMI's steps: called before a launcher's Pod is made, and while a Pod is to join another network. Reads and
patches NetworkAttachmentDefinitions, one by one; asks the server nothing for VMIs without such networks. There is one
active controller, so that nobody else gives addresses away; whoever changes the network meanwhile wins, and the pass is
repeated. Decides by `reservation_plan`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kvedge.controller.vmi.lans.reservation_plan import MacHeldError, NicOnLan, plan_reservations
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.network.lan.lan_config import LanConfigError, parse_lan_config
from kvedge.resources.lan_reservations import (
    GIVEN,
    Reservation,
    ReservationsError,
    given_text,
    reservations_of,
)
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.guest_nics import find_mac, interface_mac
from kvedge.resources.types.pod_networks import GLOBAL_NAMESPACE, attachment_of, is_there, lan_interfaces
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

# VMIs by their networks, as namespace/name.
_INDEX: Final = "lan"
# Full networks are looked at anew after so long, or when somebody has changed them.
_FULL_SECONDS: Final = 60.0
_MOST_FULL: Final = 256
# A NIC that is to come has an address within so long of when the network has one.
_AGAIN_SECONDS: Final = 10.0


class NoAddress(Exception):
    """A network has no address for an interface: the text names the field and the remedy."""


class LanReservations:
    """The addresses of guests on networks of the LAN."""

    def __init__(
        self,
        client: KubeClient,
        vmis: Informer[VirtualMachineInstance],
        vms: Informer[VirtualMachine],
        monotonic: Callable[[], float],
    ) -> None:
        """Made before the informers start."""
        self._client = client
        self._vmis = vmis
        self._vms = vms
        self._monotonic = monotonic
        vmis.add_index(_INDEX, lambda vmi: {network for network, _, _ in _own_networks(vmi)})
        # By network: its version when it was full, what was told of it, and until when that holds.
        self._full: dict[str, tuple[str, str, float]] = {}
        # Networks of which the log has said that the rights lack.
        self._forbidden: set[str] = set()

    def follow(self, vmi: VirtualMachineInstance, pods: Iterable[Pod], tell: Callable[[str], None]) -> float | None:
        """Reserve while a VMI's Pod is to join a network; when to do so again, in seconds, None for never.

        A network that was read too early, was full, or began to give addresses later has one for the NIC that waits.
        `tell` is given what keeps it from that.

        Raises:
            KubeError: when a network cannot be read or changed now.
        """
        is_ending = vmi.is_final or vmi.metadata.deletion_timestamp is not None
        if is_ending or not _is_waiting(vmi) or all(has_ended(pod) for pod in pods):
            return None
        try:
            self.reserve(vmi)
        except NoAddress as error:
            tell(str(error))
        return _AGAIN_SECONDS

    def reserve(self, vmi: VirtualMachineInstance) -> None:
        """Have an address reserved for each interface that needs one; nothing for those that have.

        Raises:
            NoAddress: when a network has none left, another VM has the MAC's, or its reservations cannot be read.
            KubeError: when a network cannot be read or changed now.
        """
        for network, index, interface in _own_networks(vmi):
            field = f"spec.domain.devices.interfaces[{index}]"
            try:
                self._reserve(vmi, interface, self._client.get(NetworkAttachmentDefinition, *network.split("/")))
            except NotFound:
                # Whoever joins the Pod says so.
                continue
            except Forbidden as error:
                self._log_forbidden(network, error)
            except MacHeldError as error:
                raise NoAddress(
                    f"{field}.macAddress ({interface.name}): network {network}: {error}; give one of the VMs another"
                    " macAddress, or delete the one that is not needed"
                ) from error
            except ReservationsError as error:
                raise NoAddress(f"{field} ({interface.name}): network {network}: {error}") from error

    def _reserve(self, vmi: VirtualMachineInstance, interface: Interface, network: NetworkAttachmentDefinition) -> None:
        try:
            addresses = parse_lan_config(network.spec.config).addresses
        except LanConfigError:
            # As above; macvtaps, too, have no addresses of ours.
            return
        if addresses is None:
            return
        meta = network.metadata
        reference = f"{meta.namespace}/{meta.name}"
        mine = _nic(vmi, interface)
        self._refuse_known_full(reference, network, mine.mac)
        others = (
            _nic(each, item)
            for each in self._vmis.find_indexed(_INDEX, reference)
            if not each.is_final
            for joined, _, item in _own_networks(each)
            if joined == reference
        )
        try:
            given = plan_reservations(network, addresses, mine, others, self._is_gone)
            text = given_text(network, given) if given is not None else ""
        except ReservationsError as error:
            self._note_full(reference, meta.resource_version, str(error))
            raise
        if given is not None:
            body = {"metadata": {"resourceVersion": meta.resource_version, "annotations": {GIVEN: text}}}
            self._client.patch(NetworkAttachmentDefinition, meta.namespace, meta.name, MergePatch(body))

    def _refuse_known_full(self, reference: str, network: NetworkAttachmentDefinition, mac: str) -> None:
        version, told, until = self._full.get(reference, ("", "", 0.0))
        if version != network.metadata.resource_version or self._monotonic() >= until:
            self._full.pop(reference, None)
        elif mac not in reservations_of(network):
            raise ReservationsError(told)

    def _note_full(self, reference: str, version: str, told: str) -> None:
        if len(self._full) >= _MOST_FULL:
            self._full.clear()
        self._full[reference] = (version, told, self._monotonic() + _FULL_SECONDS)

    def _log_forbidden(self, network: str, error: Forbidden) -> None:
        if network in self._forbidden or len(self._forbidden) >= _MOST_FULL:
            return
        self._forbidden.add(network)
        facts = {"network": network, "error": str(error), "remedy": "apply k3s/rbac again"}
        log.warning("the controller may not reserve addresses", extra={"facts": facts})

    def _is_gone(self, mac: str, held: Reservation) -> bool:
        """Whether nobody needs it: neither the VM for which it was made nor its VMI has an interface of this MAC any
        more.

        A VM that was made anew under the same name has other MACs, unless it names them.
        """
        namespace, slash, name = held.vm.partition("/")
        if not slash:
            return False
        vmi = self._vmis.get(namespace, name)
        if vmi is not None and mac in {interface_mac(vmi, each) for each in vmi.spec.domain.devices.interfaces}:
            return False
        vm = self._vms.get(namespace, name)
        if vm is None or vm.spec.template is None:
            return True
        return mac not in {find_mac(each, vm.metadata.uid) for each in vm.spec.template.spec.domain.devices.interfaces}


def _is_waiting(vmi: VirtualMachineInstance) -> bool:
    """Whether a network that a VMI is to be on is not there yet."""
    return any(not is_there(vmi.status, interface.name) for _, _, interface in _own_networks(vmi))


def _own_networks(vmi: VirtualMachineInstance) -> Iterator[tuple[str, int, Interface]]:
    """The networks that a VMI may join, as namespace/name, by its interfaces; the join refuses all others."""
    for index, interface, network_name in lan_interfaces(vmi):
        namespace, name = attachment_of(network_name, vmi.metadata.namespace)
        if namespace in (vmi.metadata.namespace, GLOBAL_NAMESPACE):
            yield f"{namespace}/{name}", index, interface


def _nic(vmi: VirtualMachineInstance, interface: Interface) -> NicOnLan:
    row = next((row for row in vmi.status.interfaces if row.name == interface.name), None)
    told = tuple(dict.fromkeys((row.ip_address, *row.ip_addresses))) if row is not None else ()
    return NicOnLan(interface_mac(vmi, interface), f"{vmi.metadata.namespace}/{vmi.metadata.name}", told)
