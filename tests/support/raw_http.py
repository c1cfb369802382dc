"""Bytes to and from an API server under test: what no well-behaved client library would send."""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil


@dataclass(frozen=True)
class RawHttp:
    """One server, and the TLS context of one of its users."""

    url: str
    context: ssl.SSLContext

    def connect(self, seconds: float = 10.0) -> socket.socket:
        """A TCP connection, and nothing more."""
        address = urlsplit(self.url)
        return socket.create_connection((address.hostname or "", address.port or 0), seconds)

    def secure(self, seconds: float = 10.0) -> ssl.SSLSocket:
        """A connection after its handshake."""
        return self.context.wrap_socket(self.connect(seconds), server_hostname=urlsplit(self.url).hostname)

    def say(self, request: bytes) -> tuple[int, bytes]:
        """The status of what comes back, 0 when the server hung up without a word, and what came."""
        with contextlib.closing(self.secure()) as connection:
            with contextlib.suppress(OSError):
                # The server may hang up before it has read everything.
                connection.sendall(request)
            answer = received(connection)
        parts = answer.split(b" ", 2)
        return (int(parts[1]) if answer.startswith(b"HTTP/") else 0), answer

    def get(self, path: bytes, headers: bytes = b"") -> tuple[int, bytes]:
        """GET with the path as it is written."""
        return self.say(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n")


def received(connection: socket.socket) -> bytes:
    """What comes until the server hangs up or, at most, 64 kB."""
    answer = b""
    with contextlib.suppress(OSError):
        while len(answer) < 65536 and (chunk := connection.recv(65536)):
            answer += chunk
            if b"\r\n\r\n" in answer and b"Connection: close" not in answer:
                break
    return answer


def is_open(connection: socket.socket) -> bool:
    """Whether the other side has not hung up."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def memory_of(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    return int(psutil.Process(pid).memory_info().rss)
