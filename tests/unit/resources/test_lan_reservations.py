"""Which address belongs to which MAC, as a network's annotation says it."""

from __future__ import annotations

import pytest

from kvedge.resources.lan_reservations import (
    GIVEN,
    RESERVATIONS,
    Reservation,
    ReservationsError,
    encode_reservations,
    given_reservations,
    operator_reservations,
    reservations_of,
    reserved_address,
)
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition

ONE, TWO = "52:54:00:00:00:01", "52:54:00:00:00:02"


def network(text: str) -> NetworkAttachmentDefinition:
    return NetworkAttachmentDefinition(metadata=ObjectMeta(annotations={RESERVATIONS: text}))


def test_what_the_controller_writes_it_reads_again() -> None:
    known = {ONE: Reservation("192.0.2.1", "shop/web"), TWO: Reservation("192.0.2.2")}
    assert reservations_of(network(encode_reservations(known))) == known


def test_an_operator_may_write_an_address_alone() -> None:
    found = network(f'{{"{ONE}": "192.0.2.1"}}')
    assert reserved_address(found, ONE.upper()) == "192.0.2.1"
    assert reserved_address(found, TWO) == ""


def test_a_network_without_the_annotation_has_reserved_nothing() -> None:
    assert reservations_of(NetworkAttachmentDefinition()) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "write it as"),
        ("{", "write it as"),
        (f'{{"{ONE}": {{"address": "192.0.2.1", "more": 1}}}}', "unknown field `more`"),
        ('{"52-54-00-00-00-01": "192.0.2.1"}', "'52-54-00-00-00-01' is no MAC in small letters with colons"),
        (f'{{"{ONE}": "192.0.2.1", "{TWO}": "192.0.2.1"}}', f"192.0.2.1 is that of {ONE} and of {TWO}"),
        ("{" * 200_000, "200000 characters long"),
    ],
)
def test_what_cannot_be_read_or_says_two_things_is_refused_with_the_annotations_name(text: str, said: str) -> None:
    with pytest.raises(ReservationsError) as caught:
        reservations_of(network(text))
    assert str(caught.value).startswith(f"metadata.annotations[{RESERVATIONS}]: ")
    assert said in str(caught.value)


def test_what_the_operator_says_wins_by_mac_and_by_address() -> None:
    other = "52:54:00:00:00:03"
    given = {ONE: Reservation("192.0.2.1", "a/a"), TWO: Reservation("192.0.2.2", "a/b")}
    annotations = {
        RESERVATIONS: f'{{"{ONE}": "192.0.2.9", "{other}": "192.0.2.2"}}',
        GIVEN: encode_reservations({**given, "52:54:00:00:00:04": Reservation("192.0.2.4", "a/c")}),
    }
    found = NetworkAttachmentDefinition(metadata=ObjectMeta(annotations=annotations))
    assert given_reservations(found) == {"52:54:00:00:00:04": Reservation("192.0.2.4", "a/c")}
    assert operator_reservations(found).keys() == {ONE, other}
    assert {mac: each.address for mac, each in reservations_of(found).items()} == {
        ONE: "192.0.2.9",
        other: "192.0.2.2",
        "52:54:00:00:00:04": "192.0.2.4",
    }


def test_a_controllers_annotation_that_somebody_broke_is_told_with_its_remedy() -> None:
    found = NetworkAttachmentDefinition(metadata=ObjectMeta(annotations={GIVEN: "no"}))
    with pytest.raises(ReservationsError, match=r"\[kvedge\.io/reserved-addresses\]: .*take it away"):
        reservations_of(found)
