"""Preparing the NICs of a guest that runs: those that it has, and those that come.

Called by the sync loop. Touches the Pod's network by `guest_network`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kvedge.handler.guest.guest_network import GuestNetwork, PreparedNic, Resolver
from kvedge.handler.guest.mac_conflicts import check_coming_mac
from kvedge.handler.guest.nic_plan import nics_of_guest
from kvedge.handler.guest.vmi_status import GuestNic
from kvedge.handler.held_process import HeldProcess
from kvedge.network.errors import NetworkError
from kvedge.resources.types.pod_networks import lan_interfaces
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DomainStatus


class RunningNics(NamedTuple):
    """What was prepared; why the first of those that come could not be; and the NICs that the guest has in vain."""

    prepared: list[PreparedNic]
    failed: NetworkError | None
    lost: Mapping[str, NetworkError]

    def lost_nics(self, vmi: VirtualMachineInstance) -> Iterator[GuestNic]:
        """As the guest has them: their rows of the status stay."""
        for row in vmi.status.interfaces:
            if row.name in self.lost:
                yield GuestNic(
                    row.name,
                    row.mac,
                    tuple(row.ip_addresses),
                    row.pod_interface_name,
                    row.queue_count or 1,
                    row.link_state,
                )

    def lost_sentences(self, vmi: VirtualMachineInstance) -> Iterator[str]:
        """Why each is lost, with its field."""
        for index, network in enumerate(vmi.spec.networks):
            if network.name in self.lost:
                yield f"spec.networks[{index}] ({network.name}): the guest is cut off: {self.lost[network.name]}"


def prepare_running(
    network: GuestNetwork,
    vmi: VirtualMachineInstance,
    of: tuple[HeldProcess, Resolver],
    status: DomainStatus,
    others: Iterable[VirtualMachineInstance] = (),
    join: Callable[[str], None] | None = None,
) -> RunningNics:
    """Each by itself: one that comes and cannot be prepared, or is lost, holds up no other one. `others` are the
    VMIs of this node. `join` joins the Pod to the network of one, where the handler does that.

    Raises:
        NetworkError: for the guest's NIC on the Pod network.
    """
    launcher, resolver = of
    nics = nics_of_guest(vmi, status, joins=join is not None)
    others_there = {item.name for _, item, _ in lan_interfaces(vmi)} & nics.present
    prepared = network.prepare(vmi, launcher, resolver, nics.present - others_there)
    lost: dict[str, NetworkError] = {}
    for name in sorted(others_there):
        try:
            prepared += network.prepare(vmi, launcher, resolver, {name})
        except NetworkError as error:
            lost[name] = error
    failed, guests = None, list(others) if nics.coming else []
    for name in sorted(nics.coming):
        try:
            check_coming_mac(vmi, name, guests)
            if join is not None:
                join(name)
            prepared += network.prepare(vmi, launcher, resolver, {name})
        except NetworkError as error:
            failed = failed or error
    return RunningNics(prepared, failed, lost)
