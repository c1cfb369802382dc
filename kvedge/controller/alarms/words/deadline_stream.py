"""A connection that ends at a moment that is known when it begins, whatever the other side does or leaves undone.

Used by the clients of webhooks and of mail relays, each in a thread of its own. Opens sockets.
"""

from __future__ import annotations

import socket
import ssl
import time
from types import TracebackType
from typing import Final, Self

_LONGEST_LINE: Final = 4096
_PIECE: Final = 4096


class WordsFailed(Exception):
    """A receiver has not taken all that it was told: why.

    `is_final` says that the same words will never be taken.
    """

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class DeadlineStream:
    """One connection; every call raises WordsFailed once the time is over."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        """Connect.

        Raises:
            WordsFailed: when nobody answers there.
        """
        self._host = host
        self._end = time.monotonic() + seconds
        self._read = b""
        try:
            self._socket = socket.create_connection((host, port), timeout=self._count_left())
        except OSError as error:
            raise WordsFailed(f"{host}:{port} cannot be reached: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Go on encrypted. What came in the clear before is no answer to what is asked from here on."""
        if self._read:
            raise WordsFailed(f"{self._host} has said something between STARTTLS and TLS: somebody is in between")
        try:
            self._socket.settimeout(self._count_left())
            self._socket = context.wrap_socket(self._socket, server_hostname=self._host)
        except ssl.SSLCertVerificationError as error:
            raise WordsFailed(f"{self._host} is not believed: {error.verify_message}") from error
        except OSError as error:
            raise WordsFailed(f"no TLS with {self._host}: {error}") from error

    def send(self, data: bytes) -> None:
        """Send all of it."""
        try:
            self._socket.settimeout(self._count_left())
            self._socket.sendall(data)
        except OSError as error:
            raise WordsFailed(f"{self._host} takes nothing: {error}") from error

    def read_line(self) -> str:
        """The next line, without its end."""
        while b"\n" not in self._read:
            if len(self._read) > _LONGEST_LINE:
                raise WordsFailed(f"{self._host} answers with a line that is too long")
            try:
                self._socket.settimeout(self._count_left())
                piece = self._socket.recv(_PIECE)
            except OSError as error:
                raise WordsFailed(f"{self._host} does not answer: {error}") from error
            if not piece:
                raise WordsFailed(f"{self._host} has hung up")
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        return line.rstrip(b"\r").decode(errors="replace")

    def _count_left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise WordsFailed(f"{self._host} takes too long")
        return left
