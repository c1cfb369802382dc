"""The changes to a host's network that moving a NIC's addresses needs besides `kvedge.network.steps`."""

from __future__ import annotations

from msgspec import Struct

from kvedge.network.nics.nic_state import KeptAddress, KeptRoute
from kvedge.network.steps import Step


class GiveAddress(Struct, frozen=True):
    """Gives a link an address with all that was written about it; nothing when it has it."""

    link: str
    address: KeptAddress


class TakeAddress(Struct, frozen=True):
    """Takes it off; nothing when the link does not have it."""

    link: str
    address: KeptAddress


class LeadRoute(Struct, frozen=True):
    """Has a route lead by this link, at once: there is no moment in which there is none."""

    link: str
    route: KeptRoute


class ReleasePort(Struct, frozen=True):
    """Makes a link a port of no bridge."""

    link: str


NicStep = Step | GiveAddress | TakeAddress | LeadRoute | ReleasePort
