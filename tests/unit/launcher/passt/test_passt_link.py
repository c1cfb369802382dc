"""passt gets the connection of the QEMU that comes, and says why it does not serve."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.launcher.launcher_errors import Unanswered
from kvedge.launcher.passt import passt_link
from kvedge.launcher.passt.passt_link import PasstLink, last_words, open_link
from kvedge.rpc.launcher_pb2 import GuestInterface, Passt

NIC = GuestInterface(name="default", mtu=1450, passt=Passt(nic="eth0", tcp=[80]))


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Iterator[PasstLink]:
    """On a port that is free here, where several run."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(passt_link, "LINK_PORT", port)
    found = open_link([GuestInterface(name="lan", tap="tap1"), NIC])
    assert found is not None
    yield found
    found.close()


def play_passt(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "passt"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def come() -> socket.socket:
    return socket.create_connection(("127.0.0.1", passt_link.LINK_PORT), 10)


def test_a_guest_without_passt_has_no_link() -> None:
    assert open_link([GuestInterface(name="default", tap="tap0")]) is None


def test_qemus_connection_is_passts_and_nobody_else_can_come(
    link: PasstLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = "import os, sys; os.write(int(sys.argv[3]), b'served')"
    play_passt(tmp_path, monkeypatch, f'exec {sys.executable} -c "{answer}" "$@"')
    with come() as qemu:
        link.connect()
        assert qemu.recv(64) == b"served"
        with pytest.raises(OSError, match="refused"):
            come()


def test_a_passt_that_ends_says_why(link: PasstLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "echo 'Failed to send 9 bytes to syslog' >&2; echo 'no routable interface' >&2; exit 1"
    play_passt(tmp_path, monkeypatch, script)
    with come(), pytest.raises(Unanswered, match=r"passt did not start: no routable interface$"):
        link.connect()


def test_a_qemu_that_does_not_come_is_not_waited_for_long(link: PasstLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passt_link, "_SECONDS", 0.05)
    with pytest.raises(Unanswered, match="QEMU did not connect"):
        link.connect()


def test_a_port_that_is_taken_is_told(link: PasstLink) -> None:
    words = r"port \d+ of the Pod's loopback.*Address already in use.*; have no other container"
    with pytest.raises(Unanswered, match=words):
        PasstLink(NIC)


def test_last_words_are_short_and_without_complaints_about_a_log() -> None:
    assert last_words(b"Failed to send 3 bytes to syslog\none\ntwo\nthree\n") == "two; three"
    assert last_words(b"Failed to send 3 bytes to syslog\n") == "it says no reason"
    assert len(last_words(b"x" * 10_000)) == 300
