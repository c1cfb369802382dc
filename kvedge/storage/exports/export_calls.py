"""One call to an exporter: what is asked, who asks, and how it is refused.

Used by export_answers.py and backup_answers.py; the other end is made by export_server.py. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit


class Client(Protocol):
    """The other end of a connection."""

    def begin(self, status: int, headers: dict[str, str], length: int | None) -> bool:
        """Send the beginning of an answer; whether the client wants a body. Without a length it ends with a mark."""

    def send(self, piece: bytes) -> None:
        """Send a piece of the body."""

    def finish_body(self) -> None:
        """Say that the body is whole."""


class Denied(Exception):
    """The call gets nothing but a status and a line."""

    def __init__(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text or HTTPStatus(status).phrase
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its path without what stands behind the question mark, which is kept apart."""

    path: str
    query: dict[str, list[str]] = field(repr=False)
    headers: Message = field(repr=False)

    @classmethod
    def read(cls, target: str, headers: Message) -> Call:
        """The call of a request line.

        Raises:
            Denied: when it is none.
        """
        try:
            parts = urlsplit(target)
            query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=16)
            return cls(unquote(parts.path, errors="strict"), query, headers)
        except ValueError as error:
            raise Denied(400, "the path cannot be read") from error

    def parameter(self, name: str) -> str:
        """The first value of a parameter, or nothing."""
        return self.query.get(name, [""])[0]
