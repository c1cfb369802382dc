"""Hands a mail to the site's relay by SMTP (RFC 5321). Called by its teller, in a thread of its own."""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Sequence
from typing import Final

from kvedge.controller.alarms.words.deadline_stream import DeadlineStream, WordsFailed
from kvedge.controller.alarms.words.receiver_settings import Mail
from kvedge.controller.alarms.words.webhook_client import make_context

_SECONDS: Final = 60.0
_MOST_LINES: Final = 100
_LONGEST_SHOWN: Final = 200
_REPLY: Final = re.compile(r"(?P<code>[2-5][0-9]{2})(?P<more>[ -]?)(?P<text>.*)", re.DOTALL)


def send_mail(mail: Mail, message: bytes, seconds: float = _SECONDS) -> None:
    """Have the relay take a message for all recipients; one that it refuses keeps no other from getting it.

    Raises:
        WordsFailed: when the relay takes it for none.
    """
    context = make_context(mail.ca) if mail.security != "none" else None
    with DeadlineStream(mail.host, mail.port, seconds) as stream:
        session = _Session(stream, mail.host)
        if mail.security == "tls" and context is not None:
            stream.start_tls(context)
        session.expect(220)
        offered = session.greet()
        if mail.security == "starttls" and context is not None:
            if "STARTTLS" not in offered:
                raise WordsFailed(f"{mail.host} offers no STARTTLS; if it speaks TLS at once, set security: tls")
            session.ask("STARTTLS", 220)
            stream.start_tls(context)
            # Nothing that was said in the clear counts any more.
            offered = session.greet()
        if mail.user:
            session.log_in(mail, offered)
        session.ask(f"MAIL FROM:<{mail.from_}>", 250)
        session.address(mail.to)
        session.ask("DATA", 354)
        stream.send(_stuff(message))
        session.expect(250)
        stream.send(b"QUIT\r\n")


class _Session:
    """Commands and replies."""

    def __init__(self, stream: DeadlineStream, host: str) -> None:
        self._stream, self._host = stream, host

    def greet(self) -> dict[str, str]:
        """Say who we are; what the relay offers, by keyword."""
        name = socket.gethostname().encode("ascii", "ignore").decode() or "localhost"
        lines = self.ask(f"EHLO {name}", 250)
        return {word.upper(): rest for word, _, rest in (line.partition(" ") for line in lines[1:])}

    def log_in(self, mail: Mail, offered: dict[str, str]) -> None:
        """PLAIN, or LOGIN where that is all there is; both are words in the clear, so only within TLS."""
        ways = offered.get("AUTH", "").upper().split()
        if "PLAIN" in ways:
            word = base64.b64encode(f"\0{mail.user}\0{mail.password}".encode()).decode()
            self.ask(f"AUTH PLAIN {word}", 235)
        elif "LOGIN" in ways:
            self.ask("AUTH LOGIN", 334)
            self.ask(base64.b64encode(mail.user.encode()).decode(), 334)
            self.ask(base64.b64encode(mail.password.encode()).decode(), 235)
        else:
            raise WordsFailed(f"{self._host} offers no way to log in that is known here: PLAIN, LOGIN")

    def address(self, recipients: Sequence[str]) -> None:
        """Name the recipients; one at least must be taken."""
        refused: list[WordsFailed] = []
        for each in recipients:
            try:
                self.ask(f"RCPT TO:<{each}>", 250, 251)
            except WordsFailed as error:
                refused.append(error)
        if len(refused) == len(recipients):
            raise refused[0]

    def ask(self, command: str, *codes: int) -> list[str]:
        """One command; the lines of the reply."""
        self._stream.send(command.encode() + b"\r\n")
        return self.expect(*codes)

    def expect(self, *codes: int) -> list[str]:
        """The next reply, which must have one of these codes."""
        lines: list[str] = []
        while len(lines) < _MOST_LINES:
            found = _REPLY.fullmatch(self._stream.read_line())
            if found is None:
                raise WordsFailed(f"{self._host} does not speak SMTP")
            lines.append(found["text"])
            if found["more"] != "-":
                code = int(found["code"])
                if code in codes:
                    return lines
                text = " ".join(lines)[:_LONGEST_SHOWN]
                raise WordsFailed(f"{self._host} refuses: {code} {text}", is_final=code in (552, 554))
        raise WordsFailed(f"{self._host} answers without end")


def _stuff(message: bytes) -> bytes:
    """A message as it goes over the line: a line that begins with a dot gets another one, and a lone dot ends it."""
    lines = message.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    return b"".join((b"." + line if line.startswith(b".") else line) + b"\r\n" for line in lines) + b".\r\n"
