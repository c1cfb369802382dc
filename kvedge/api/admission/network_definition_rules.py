"""Rules for NetworkAttachmentDefinitions where kvedge joins Pods to them.

A type of another plugin is let in with a warning, as manifests for clusters have networks that no VM of a box is on: a
VM that is says so in a condition. Called by admission_plan.py: for each on one box, in a cluster for those with words
of kvedge's own, as all others are Multus' to judge. Touches nothing. Whether the bridge or the NIC is there is found
out later, as it may still come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.network.lan.lan_addresses import AddressesError, LanAddresses
from kvedge.network.lan.lan_config import LanConfig, LanConfigError, parse_lan_config
from kvedge.network.lan.macvtap_config import MacvtapConfig, parse_macvtap_config
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.lan_reservations import RESERVATIONS, Reservation, ReservationsError, operator_reservations
from kvedge.resources.types.attachments import NetworkAttachmentDefinition

_CONFIG: Final = Field("spec.config")
_RESERVED: Final = Field("metadata.annotations").key(RESERVATIONS)


def network_can_be_joined(document: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """A configuration that can be read, with reservations that fit; one that stays passes."""
    try:
        network = decode(NetworkAttachmentDefinition, document)
    except DecodeError as error:
        yield Cause(error.path, str(error), "FieldValueTypeInvalid")
        return
    if old is not None and _choose_judged(old) == _choose_judged(document):
        return
    try:
        config: LanConfig | MacvtapConfig = parse_macvtap_config(network.spec.config) or parse_lan_config(
            network.spec.config
        )
    except LanConfigError as error:
        if not error.is_foreign:
            yield Cause(_CONFIG, str(error))
        return
    addresses = config.addresses if isinstance(config, LanConfig) else None
    try:
        reserved = operator_reservations(network)
    except ReservationsError as error:
        yield Cause(_RESERVED, str(error))
        return
    if addresses is not None:
        yield from _check_fit(addresses, reserved)


def _check_fit(addresses: LanAddresses, reserved: Mapping[str, Reservation]) -> Iterator[Cause]:
    for mac, each in reserved.items():
        try:
            addresses.with_prefix(each.address)
        except AddressesError as error:
            yield Cause(_RESERVED, f"{mac}: {error}; reserve another of {addresses.subnet} for it, or take it away")
            return


def network_warnings(document: JsonObject) -> Iterator[str]:
    """That no VM can join a network of a type that is not there."""
    with contextlib.suppress(DecodeError):
        network = decode(NetworkAttachmentDefinition, document)
        try:
            if parse_macvtap_config(network.spec.config) is None:
                parse_lan_config(network.spec.config)
        except LanConfigError as error:
            if error.is_foreign:
                yield f"no VM can join it here: {error}"


def _choose_judged(document: JsonObject) -> tuple[object, object]:
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return document.get("spec"), annotations.get(RESERVATIONS)
