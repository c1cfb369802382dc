"""Preparing the NICs of a guest that runs: those that it has, and those that come.

Called by the sync loop. Touches the Pod's network by `guest_network`.
"""

from __future__ import annotations

from kvedge.handler.guest.guest_network import GuestNetwork, PreparedNic, Resolver
from kvedge.handler.guest.nic_plan import nics_of_guest
from kvedge.handler.held_process import HeldProcess
from kvedge.network.errors import NetworkError
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DomainStatus


def prepare_running(
    network: GuestNetwork, vmi: VirtualMachineInstance, of: tuple[HeldProcess, Resolver], status: DomainStatus
) -> tuple[list[PreparedNic], NetworkError | None]:
    """What was prepared, and why the first of those that come could not be: it holds up no other one.

    Raises:
        NetworkError: for a NIC that the guest has.
    """
    launcher, resolver = of
    nics = nics_of_guest(vmi, status)
    prepared = network.prepare(vmi, launcher, resolver, nics.present)
    failed = None
    for name in sorted(nics.coming):
        try:
            prepared += network.prepare(vmi, launcher, resolver, {name})
        except NetworkError as error:
            failed = failed or error
    return prepared, failed
