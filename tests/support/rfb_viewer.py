"""A VNC viewer of tests: RFB's beginning as RFC 6143 has it, by hand, for each of its versions."""

from __future__ import annotations

import socket

from kvedge.client.streams.rfb_handshake import answer_challenge

# The key of every VNC program for the passwords in its files.
_FILE_KEY = bytes([23, 82, 107, 6, 35, 78, 88, 7]).decode("latin-1")


class Refused(Exception):
    """The server does not let the viewer in; the text is its reason, where the version has one."""


def read(end: socket.socket, length: int) -> bytes:
    """So many bytes. Raises EOFError when they do not come."""
    found = b""
    while len(found) < length:
        data = end.recv(length - len(found))
        if not data:
            raise EOFError(f"{len(found)} of {length} bytes")
        found += data
    return found


def enter(end: socket.socket, password: str, version: str = "003.008") -> None:
    """Come in, up to where the screen itself begins. Raises Refused."""
    assert read(end, 12) == b"RFB 003.008\n"
    end.sendall(f"RFB {version}\n".encode())
    if version == "003.003":
        assert read(end, 4) == b"\0\0\0\2"
    else:
        assert read(end, read(end, 1)[0]) == b"\2"
        end.sendall(b"\2")
    end.sendall(answer_challenge(password, read(end, 16)))
    if read(end, 4) != b"\0\0\0\0":
        text = read(end, int.from_bytes(read(end, 4))).decode() if version == "003.008" else ""
        raise Refused(text)


def password_file(password: str) -> bytes:
    """The password as VNC's own programs keep it in a file."""
    return answer_challenge(_FILE_KEY, password.encode().ljust(8, b"\0"))
