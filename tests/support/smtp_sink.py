"""A mail relay of a test's own, in threads: STARTTLS or TLS, logging in, and what it was told in which order."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default
from typing import Self

from tests.support.certificate_files import PairFiles


@dataclass
class Delivery:
    """One mail as it came."""

    sender: str
    recipients: list[str]
    raw: bytes
    encrypted: bool
    user: str

    @property
    def mail(self) -> Message:
        return message_from_bytes(self.raw, policy=default)  # type: ignore[arg-type]


@dataclass
class SmtpSink:
    """Serves on 127.0.0.1; `refuse` answers a command instead of the sink, by its first word."""

    pair: PairFiles | None = None
    tls_at_once: bool = False
    password: str = ""
    refuse: dict[str, str] = field(default_factory=dict)
    # Recipients that it does not have.
    refused: set[str] = field(default_factory=set)
    # Called with the connection before it is greeted: what it sends then is what the client gets.
    first: Callable[[socket.socket], None] | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="smtp-sink", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that accepts holds the socket: only this ends its wait.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        talk: _Talk | None = None
        try:
            if self.first is not None:
                self.first(connection)
            if self.tls_at_once:
                connection = self._wrap(connection)
            talk = _Talk(self, connection, encrypted=self.tls_at_once)
            talk.run()
        except OSError:
            # The client has gone, which is what some tests are about.
            pass
        finally:
            talk.close() if talk is not None else connection.close()

    def _wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        assert self.pair is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pair.cert, self.pair.key)
        return context.wrap_socket(connection, server_side=True)


class _Talk:
    def __init__(self, sink: SmtpSink, connection: socket.socket, *, encrypted: bool) -> None:
        self._sink, self._connection, self._encrypted = sink, connection, encrypted
        self._file = connection.makefile("rb")
        self._sender, self._recipients, self._user = "", list[str](), ""

    def close(self) -> None:
        self._file.close()
        self._connection.close()

    def run(self) -> None:
        self._say("220 sink")
        while line := self._file.readline(4096):
            text = line.decode().rstrip("\r\n")
            self._sink.said.append(text)
            word = text.split(" ")[0].split(":")[0].upper()
            if word in self._sink.refuse:
                self._say(self._sink.refuse[word])
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                getattr(self, f"_{word.lower()}")(text)

    def _ehlo(self, text: str) -> None:
        offers = ["250-sink"]
        if self._sink.pair is not None and not self._encrypted:
            offers.append("250-STARTTLS")
        if self._sink.password and self._encrypted:
            offers.append("250-AUTH PLAIN LOGIN")
        for each in (*offers, "250 8BITMIME"):
            self._say(each)

    def _starttls(self, text: str) -> None:
        self._say("220 go on")
        self._file.close()
        self._connection = self._sink._wrap(self._connection)
        self._file = self._connection.makefile("rb")
        self._encrypted = True

    def _auth(self, text: str) -> None:
        _, user, password = base64.b64decode(text.split(" ")[2]).decode().split("\0")
        if password == self._sink.password:
            self._user = user
        self._say("235 in" if self._user else "535 no")

    def _mail(self, text: str) -> None:
        self._sender = text.partition("<")[2].partition(">")[0]
        self._say("530 log in first" if self._sink.password and not self._user else "250 ok")

    def _rcpt(self, text: str) -> None:
        address = text.partition("<")[2].partition(">")[0]
        if address in self._sink.refused:
            self._say("550 nobody of that name")
            return
        self._recipients.append(address)
        self._say("250 ok")

    def _data(self, text: str) -> None:
        self._say("354 go on")
        lines = []
        while (line := self._file.readline(1_000_000)) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        raw = b"".join(lines)
        self._sink.deliveries.append(Delivery(self._sender, self._recipients, raw, self._encrypted, self._user))
        self._say("250 taken")

    def _say(self, text: str) -> None:
        self._connection.sendall(f"{text}\r\n".encode())
