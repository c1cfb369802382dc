"""Which address of a network of the LAN belongs to which MAC: two annotations of the NetworkAttachmentDefinition. Pure.

One is the operator's, which the controller only reads. The other is the controller's, which reserves an address for
each interface of a VM. Each has one writer, so that an operator who applies a manifest again takes nothing from guests
that run. What the operator says wins. Whoever joins the Pod gives it its address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from kvedge.resources.types.attachments import NetworkAttachmentDefinition

# The operator's.
RESERVATIONS: Final = "kvedge.io/addresses"
# The controller's.
GIVEN: Final = "kvedge.io/reserved-addresses"
# All annotations of an object together may have 256 KiB.
_LONGEST: Final = 192 * 1024
_LONGEST_OF_OBJECT: Final = 255 * 1024
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_REMEDIES: Final[Mapping[str, str]] = {
    RESERVATIONS: 'write it as {"52:54:00:00:00:01": "192.168.1.50"}',
    GIVEN: "take it away, and the controller writes it anew",
}


class ReservationsError(ValueError):
    """An annotation cannot be read or written, or says two things of one address."""


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An address, and the VM for whose interface the controller has reserved it, as namespace/name."""

    address: str
    vm: str = ""


# Made at the import: msgspec learns a type in one thread, before others use it.
_DECODER: Final = msgspec.json.Decoder(dict[str, Reservation | str])


def reservations_of(network: NetworkAttachmentDefinition) -> dict[str, Reservation]:
    """All that hold, by MAC. Raises ReservationsError."""
    operators = operator_reservations(network)
    return {**_read_given(network, operators), **operators}


def operator_reservations(network: NetworkAttachmentDefinition) -> dict[str, Reservation]:
    """What the operator has reserved, by MAC. Raises ReservationsError."""
    return _read(network, RESERVATIONS)


def given_reservations(network: NetworkAttachmentDefinition) -> dict[str, Reservation]:
    """What the controller has reserved and the operator has left to it, by MAC. Raises ReservationsError."""
    return _read_given(network, operator_reservations(network))


def _read_given(network: NetworkAttachmentDefinition, operators: Mapping[str, Reservation]) -> dict[str, Reservation]:
    taken = {each.address for each in operators.values()}
    found = _read(network, GIVEN).items()
    return {mac: each for mac, each in found if mac not in operators and each.address not in taken}


def _read(network: NetworkAttachmentDefinition, annotation: str) -> dict[str, Reservation]:
    at = f"metadata.annotations[{annotation}]"
    text = network.metadata.annotations.get(annotation, "")
    if len(text) > _LONGEST:
        raise ReservationsError(f"{at}: {len(text)} characters long; no more than {_LONGEST} are read")
    try:
        found = _DECODER.decode(text or "{}")
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ReservationsError(f"{at}: {str(error)[:200]}; {_REMEDIES[annotation]}") from error
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


def annotation_of(network: NetworkAttachmentDefinition, mac: str) -> str:
    """The annotation that says of this MAC what holds. Raises ReservationsError."""
    return RESERVATIONS if mac.lower() in operator_reservations(network) else GIVEN


def reserved_address(network: NetworkAttachmentDefinition, mac: str) -> str:
    """The address of this MAC; empty for none. Raises ReservationsError."""
    found = reservations_of(network).get(mac.lower())
    return found.address if found is not None else ""


def encode_reservations(reservations: Mapping[str, Reservation]) -> str:
    """An annotation, as `reservations_of` reads it."""
    return msgspec.json.encode(dict(reservations), order="sorted").decode()


def given_text(network: NetworkAttachmentDefinition, given: Mapping[str, Reservation]) -> str:
    """The controller's annotation. Raises ReservationsError when the network has no room for it."""
    text = encode_reservations(given)
    others = sum(len(key) + len(value) for key, value in network.metadata.annotations.items() if key != GIVEN)
    if len(text) > _LONGEST or len(text) + others > _LONGEST_OF_OBJECT:
        raise ReservationsError(
            f"metadata.annotations[{GIVEN}]: there is no room for {len(given)} reservations beside the other"
            " annotations; delete VMs that are not needed, or make another network for more"
        )
    return text
