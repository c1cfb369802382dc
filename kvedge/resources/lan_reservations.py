"""Which address of a network of the LAN belongs to which MAC: an annotation of the NetworkAttachmentDefinition. Pure.

The controller reserves one for each interface of a VM; whoever joins the Pod gives it that one. An operator may write
reservations, too: they are nobody's to give away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from kvedge.resources.types.attachments import NetworkAttachmentDefinition

RESERVATIONS: Final = "kvedge.io/addresses"
# All annotations of an object together may have 256 KiB.
_LONGEST: Final = 192 * 1024
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


class ReservationsError(ValueError):
    """The annotation cannot be read, or says two things of one address."""


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An address, and the VM for whose interface the controller has reserved it, as namespace/name."""

    address: str
    vm: str = ""


# Made at the import: msgspec learns a type in one thread, before others use it.
_DECODER: Final = msgspec.json.Decoder(dict[str, Reservation | str])


def reservations_of(network: NetworkAttachmentDefinition) -> dict[str, Reservation]:
    """By MAC. Raises ReservationsError."""
    at = f"metadata.annotations[{RESERVATIONS}]"
    text = network.metadata.annotations.get(RESERVATIONS, "")
    if len(text) > _LONGEST:
        raise ReservationsError(f"{at}: {len(text)} characters long; no more than {_LONGEST} are read")
    try:
        found = _DECODER.decode(text or "{}")
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        remedy = 'write it as {"52:54:00:00:00:01": "192.168.1.50"}'
        raise ReservationsError(f"{at}: {str(error)[:200]}; {remedy}") from error
    reservations = {}
    holders: dict[str, str] = {}
    for mac, given in found.items():
        each = Reservation(given) if isinstance(given, str) else given
        if not _MAC.fullmatch(mac):
            raise ReservationsError(f"{at}: {mac[:40]!r} is no MAC in small letters with colons")
        if (other := holders.setdefault(each.address, mac)) != mac:
            raise ReservationsError(f"{at}: {each.address[:40]} is that of {other} and of {mac}: give one another")
        reservations[mac] = each
    return reservations


def reserved_address(network: NetworkAttachmentDefinition, mac: str) -> str:
    """The address of this MAC; empty for none. Raises ReservationsError."""
    found = reservations_of(network).get(mac.lower())
    return found.address if found is not None else ""


def encode_reservations(reservations: Mapping[str, Reservation]) -> str:
    """The annotation, as `reservations_of` reads it."""
    return msgspec.json.encode(dict(reservations), order="sorted").decode()
