"""Which address the controller reserves for a NIC, and for which other NICs it puts back what somebody has erased.

Pure; `lan_reservations` looks, asks here, and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.resources.lan_reservations import (
    GIVEN,
    RESERVATIONS,
    Reservation,
    ReservationsError,
    given_reservations,
    operator_reservations,
)
from kvedge.resources.types.attachments import NetworkAttachmentDefinition

# The guest may tell its addresses: one that tells many may not use up a network.
_MOST_TOLD: Final = 4


class NicOnLan(Struct, frozen=True):
    """A NIC of a VMI on the network: its MAC, the VMI as namespace/name, and the addresses that its status shows."""

    mac: str
    vm: str
    told: tuple[str, ...] = ()


class MacHeldError(Exception):
    """Another VM, which is still there, has the address of this MAC: the text names it."""


# Whether nobody needs a reservation, made for this MAC, any more.
Gone = Callable[[str, Reservation], bool]


def plan_reservations(
    network: NetworkAttachmentDefinition,
    addresses: LanAddresses,
    mine: NicOnLan,
    nics: Iterable[NicOnLan],
    is_gone: Gone,
) -> dict[str, Reservation] | None:
    """What the controller's annotation is to say, so that `mine` has an address; None when it says so already.

    `nics` are those of all VMIs on the network.

    Raises:
        ReservationsError: when no address is left, or an annotation cannot be read.
        MacHeldError: when the MAC's address is another VM's.
    """
    operators = operator_reservations(network)
    # The subnet may be another one since: a guest that runs keeps what it has, and its next run gets what fits.
    given = {mac: each for mac, each in given_reservations(network).items() if addresses.fits(each.address)}
    used = {each.address for each in (*operators.values(), *given.values())}
    known = len(given)
    told = set()
    for nic in (mine, *nics):
        seen = [each for each in nic.told if addresses.has(each)][:_MOST_TOLD]
        told.update(seen)
        lost = next((each for each in seen if each not in used), None)
        if lost is not None and nic.mac not in given and nic.mac not in operators:
            # Somebody has erased the entry of a guest that runs.
            given[nic.mac] = Reservation(lost, nic.vm)
            used.add(lost)
    held = given.get(mine.mac)
    if held is not None and held.vm not in ("", mine.vm):
        if not is_gone(mine.mac, held):
            raise MacHeldError(f"{mine.mac} is that of VM {held.vm}, which has {held.address} there")
        return {**given, mine.mac: Reservation(held.address, mine.vm)}
    if held is not None or mine.mac in operators:
        return given if len(given) > known else None
    address = addresses.free_address(used | told)
    if address is None:
        given = {mac: each for mac, each in given.items() if not is_gone(mac, each)}
        used = {each.address for each in (*operators.values(), *given.values())}
        address = addresses.free_address(used | told)
    if address is None:
        raise ReservationsError(
            f"all addresses of {addresses.first}-{addresses.last} are reserved; delete VMs that are not needed, take"
            f" reservations out of metadata.annotations[{RESERVATIONS}] (yours) or metadata.annotations[{GIVEN}] (the"
            " controller's), or make a network with more"
        )
    return {**given, mine.mac: Reservation(address, mine.vm)}
