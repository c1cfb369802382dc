"""Preparing the NICs of a guest that runs: those that it has, and those that come.

Called by the sync loop. Touches the Pod's network by `guest_network`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvedge.handler.guest.guest_network import GuestNetwork, PreparedNic, Resolver
from kvedge.handler.guest.mac_conflicts import check_coming_mac
from kvedge.handler.guest.nic_plan import nics_of_guest
from kvedge.handler.held_process import HeldProcess
from kvedge.network.errors import NetworkError
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DomainStatus


def prepare_running(
    network: GuestNetwork,
    vmi: VirtualMachineInstance,
    of: tuple[HeldProcess, Resolver],
    status: DomainStatus,
    others: Iterable[VirtualMachineInstance] = (),
    join: Callable[[str], None] | None = None,
) -> tuple[list[PreparedNic], NetworkError | None]:
    """What was prepared, and why the first of those that come could not be: it holds up no other one. `others` are the
    VMIs of this node. `join` joins the Pod to the network of one, where the handler does that.

    Raises:
        NetworkError: for a NIC that the guest has.
    """
    launcher, resolver = of
    nics = nics_of_guest(vmi, status, joins=join is not None)
    prepared = network.prepare(vmi, launcher, resolver, nics.present)
    failed, guests = None, list(others) if nics.coming else []
    for name in sorted(nics.coming):
        try:
            check_coming_mac(vmi, name, guests)
            if join is not None:
                join(name)
            prepared += network.prepare(vmi, launcher, resolver, {name})
        except NetworkError as error:
            failed = failed or error
    return prepared, failed
