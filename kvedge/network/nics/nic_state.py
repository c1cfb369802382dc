"""What a NIC carried before kvedge made a bridge of it: addresses, routes and settings, as values and as a document.

Pure; the journal keeps it on disk, the plan makes steps of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.network.link_types import MAIN_TABLE, PROTO_STATIC

# A link's name has so many letters.
_LONGEST_NAME: Final = 15
_PREFIX: Final = "kvb-"


class NicPhase(StrEnum):
    """How far a move is: steps are made; all are, and nobody has confirmed it; it stays; it was impossible."""

    MOVING = "Moving"
    MOVED = "Moved"
    KEPT = "Kept"
    FAILED = "Failed"


class NicRecordError(ValueError):
    """A document that is no record of a NIC."""


class KeptAddress(Struct, frozen=True):
    """One address that somebody has configured; `connected`: its subnet is reached by the link."""

    address: str
    prefix_length: int
    broadcast: str = ""
    label: str = ""
    scope: int = 0
    connected: bool = True

    @property
    def version(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.address else 4


class KeptRoute(Struct, frozen=True):
    """One unicast route that the kernel has not made by itself."""

    destination: str
    gateway: str = ""
    table: int = MAIN_TABLE
    protocol: int = PROTO_STATIC
    metric: int = 0
    scope: int = 0
    source: str = ""
    tos: int = 0
    onlink: bool = False

    @property
    def version(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.destination else 4


class NicRecord(Struct, frozen=True):
    """A NIC, its bridge, and what the NIC carried; `boot` is the boot of the host in which that was seen.

    `settings` are those of the kernel for the NIC, by their names behind `ipv4/conf/NIC/` or `ipv6/conf/NIC/`.
    """

    nic: str
    bridge: str
    mac: str
    mtu: int
    boot: str
    phase: NicPhase = NicPhase.MOVING
    addresses: tuple[KeptAddress, ...] = ()
    routes: tuple[KeptRoute, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    # Routers of the LAN had told the NIC addresses or routes: on the bridge they tell them anew.
    learns: bool = False
    # Why it could not be moved.
    error: str = ""

    @property
    def carries_host(self) -> bool:
        """Whether the host may be out of reach by a mistake with this NIC."""
        return bool(self.addresses or self.routes) or self.learns

    def in_phase(self, phase: NicPhase, error: str = "") -> NicRecord:
        """The same NIC, farther on."""
        return replace(self, phase=phase, error=error)


def bridge_of_nic(nic: str) -> str:
    """What the bridge is called unless somebody names it: after its NIC, in as many letters as there is room for."""
    return (_PREFIX + nic)[:_LONGEST_NAME]


def record_text(record: NicRecord) -> str:
    """The document that `parse_record` reads."""
    return json.dumps(msgspec.to_builtins(record), indent=1)


def parse_record(text: str) -> NicRecord:
    """The record of a document. Raises NicRecordError."""
    try:
        found: dict[str, Any] = json.loads(text)
        addresses = tuple(KeptAddress(**each) for each in found.pop("addresses"))
        routes = tuple(KeptRoute(**each) for each in found.pop("routes"))
        phase = NicPhase(found.pop("phase"))
        return NicRecord(**found, phase=phase, addresses=addresses, routes=routes)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NicRecordError(f"this is no record of a NIC: {error}") from error
