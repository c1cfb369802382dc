"""What a guest is known by."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.identity import firmware_uuid, guest_mac


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_mac_is_unicast_local_and_always_the_same(uid: str, interface: str) -> None:
    mac = guest_mac(uid, interface)
    first = int(mac.split(":")[0], 16)
    assert first & 0b11 == 0b10
    assert len(mac) == 17
    assert mac == guest_mac(uid, interface)


def test_two_vms_and_two_interfaces_of_one_differ() -> None:
    assert len({guest_mac("a", "x"), guest_mac("a", "y"), guest_mac("b", "x")}) == 3


def test_a_firmware_uuid_is_a_uuid_and_always_the_same() -> None:
    assert uuid.UUID(firmware_uuid("a")).version == 5
    assert firmware_uuid("a") == firmware_uuid("a") != firmware_uuid("b")
