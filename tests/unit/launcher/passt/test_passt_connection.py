# Tests: kvedge/launcher/passt/passt_connection.py
"""Whether the connection of QEMU and passt stands, as the kernel tells of one that is made and closed here."""

from __future__ import annotations

import socket
import struct

import pytest

from kvedge.launcher.passt import passt_connection
from kvedge.launcher.passt.passt_connection import UnclearAnswer, is_connected, make_query, read_part


def message(kind: int, body: bytes = b"") -> bytes:
    padded = body + bytes(-len(body) % 4)
    return struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + padded


def connection(port: int, address: str = "127.0.0.1") -> bytes:
    return message(20, struct.pack("!4sHH4s", b"\2\1\0\0", port, 41000, socket.inet_aton(address)) + bytes(56))


DONE = message(3, bytes(4))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (DONE, (False, True)),
        (connection(49215), (True, False)),
        (connection(49215) + DONE, (True, True)),
        (connection(49215, "10.0.0.4") + connection(80) + DONE, (False, True)),
        (b"", (False, False)),
    ],
    ids=["none", "the connection", "it and the end", "another address and another port", "nothing yet"],
)
def test_the_connection_is_that_of_passts_port_on_the_loopback(part: bytes, expected: tuple[bool, bool]) -> None:
    assert read_part(part) == expected


@pytest.mark.parametrize(
    "part",
    [message(2, bytes(20)), struct.pack("=IHHII", 4, 20, 2, 1, 0), struct.pack("=IHHII", 400, 20, 2, 1, 0)],
    ids=["a refusal", "too short to be one", "longer than it is"],
)
def test_what_is_no_answer_is_not_taken_for_none(part: bytes) -> None:
    with pytest.raises(UnclearAnswer):
        read_part(part)


def test_the_kernel_finds_a_connection_while_both_ends_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(passt_connection, "LINK_PORT", server.getsockname()[1])
        assert is_connected() is False, "a port that listens is no connection"
        with socket.create_connection(server.getsockname()) as qemu:
            passt, _ = server.accept()
            assert is_connected() is True
            passt.close()
            assert is_connected() is False
            assert qemu.recv(1) == b""


def test_a_kernel_that_does_not_tell_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passt_connection, "make_query", lambda: make_query()[:16])
    assert is_connected() is None
