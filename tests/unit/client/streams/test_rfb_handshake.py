"""RFB's beginning: a viewer that knows the password comes in, in each version; nothing that it says is too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.client.streams.rfb_handshake import (
    PASSWORD_LENGTH,
    GuestHandshake,
    NoHandshake,
    ViewerHandshake,
    answer_challenge,
    make_password,
)

CHALLENGE = bytes(range(16))
PASSWORD = "Secret42"


def viewer(*said: bytes, password: str = PASSWORD) -> tuple[ViewerHandshake, bytes]:
    """After a viewer has said this, and what it was told."""
    found = ViewerHandshake(password, CHALLENGE)
    told = found.to_send()
    for words in said:
        found.receive(words)
        told += found.to_send()
    return found, told


def test_des_is_that_of_vnc() -> None:
    # Of the standard's test vectors (FIPS 81): the key is given with the bits of each byte in reverse.
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in bytes.fromhex("0123456789abcdef"))
    assert answer_challenge(key.decode("latin-1"), b"Now is t").hex() == "3fa40e8a984d4815"


def test_passwords_are_as_long_as_vnc_takes_and_never_the_same() -> None:
    made = {make_password() for _ in range(100)}
    assert len(made) == 100
    assert {len(password) for password in made} == {PASSWORD_LENGTH}
    assert all(password.isalnum() for password in made)


@pytest.mark.parametrize(
    ("version", "choice", "told"),
    [
        (b"RFB 003.003\n", b"", b"\0\0\0\2"),
        (b"RFB 003.007\n", b"\2", b"\1\2"),
        (b"RFB 003.008\n", b"\2", b"\1\2"),
        (b"RFB 003.889\n", b"\2", b"\1\2"),
        (b"RFB 003.005\n", b"", b"\0\0\0\2"),
    ],
    ids=["3.3", "3.7", "3.8", "Apple", "an odd one is 3.3"],
)
def test_a_viewer_with_the_password_comes_in(version: bytes, choice: bytes, told: bytes) -> None:
    found, said = viewer(version, choice, answer_challenge(PASSWORD, CHALLENGE))
    assert said == b"RFB 003.008\n" + told + CHALLENGE
    assert found.is_over
    assert found.knows_password
    found.accept()
    assert found.to_send() == b"\0\0\0\0"


def test_a_viewer_without_it_is_told_so_where_its_version_can() -> None:
    found, _ = viewer(b"RFB 003.008\n", b"\2", bytes(16))
    assert found.is_over
    assert not found.knows_password
    found.refuse("no")
    assert found.to_send() == b"\0\0\0\1\0\0\0\2no"
    old, _ = viewer(b"RFB 003.003\n", answer_challenge("other", CHALLENGE))
    old.refuse("no")
    assert (old.knows_password, old.to_send()) == (False, b"\0\0\0\1")


def test_bytes_may_come_one_by_one_or_all_at_once_and_what_is_behind_is_left() -> None:
    words = b"RFB 003.008\n\2" + answer_challenge(PASSWORD, CHALLENGE)
    slow, _ = viewer(*(bytes([byte]) for byte in words))
    assert slow.knows_password
    fast, _ = viewer(words + b"\1")
    assert fast.knows_password
    assert (fast.rest(), fast.rest()) == (b"\1", b"")


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\n", b"RFB 003.00x\n", b"RFB 002.008\n", b"RFB 003.008\n\1"],
    ids=["HTTP", "no number", "too old", "no password"],
)
def test_what_is_no_viewer_is_refused(said: bytes) -> None:
    with pytest.raises(NoHandshake):
        viewer(said)


@given(st.binary(max_size=200))
def test_nothing_that_a_viewer_says_breaks_it(said: bytes) -> None:
    try:
        found, _ = viewer(said)
    except NoHandshake:
        return
    assert not found.knows_password


def test_a_guests_screen_is_greeted_and_its_first_words_are_left() -> None:
    guest = GuestHandshake()
    guest.receive(b"RFB 003.008\n")
    assert guest.to_send() == b"RFB 003.008\n"
    guest.receive(b"\2\2\1")
    assert guest.to_send() == b"\1"
    guest.receive(b"\0\0\0\0screen")
    assert guest.is_over
    assert guest.rest() == b"screen"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"RFB 003.003\n", "too old"),
        (b"RFB 003.008\n\1\2", "wants a password"),
        (b"RFB 003.008\n\0\0\0\0\4busy", "busy"),
        (b"RFB 003.008\n\1\1\0\0\0\1\0\0\0\2no", "no"),
        (b"RFB 003.008\n\0\xff\xff\xff\xff" + b"x" * 1024, "xxx"),
        (b"no words at all", "does not speak RFB"),
    ],
)
def test_a_screen_that_does_not_let_in_says_why(said: bytes, why: str) -> None:
    with pytest.raises(NoHandshake, match=why):
        GuestHandshake().receive(said)
