"""Fetches from a worker what it has read in a repository: the record of a backup, or a list.

Called by the loops of restores and tasks, each of which has one worker for all namespaces. Opens one connection to a
Pod's address. The answer is bounded in size, and in time as a whole: a Pod that sends a byte now and then holds nobody
up.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Final, TypeVar

from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.types.import_job import PROGRESS_PORT
from kvedge.resources.types.protection.backup_job import LARGEST_RESULT

T = TypeVar("T")

_SECONDS: Final = 5.0
_LONGEST_HEAD: Final = 4096
_PIECE: Final = 64 << 10
_TOKEN: Final = re.compile(r"[0-9A-Za-z]+")
_FOUND: Final = re.compile(rb"HTTP/1\.[01] 200 ")
_LENGTH: Final = re.compile(rb"\r\nContent-Length: (\d{1,9})(?:\r\n|$)", re.IGNORECASE)


def fetch_result(
    cls: type[T], address: str, token: str, port: int = PROGRESS_PORT, seconds: float = _SECONDS
) -> T | None:
    """The document of this type; None while the worker has none, or does not answer in time.

    Raises:
        DecodeError: when what it hands out is another one.
    """
    if not _TOKEN.fullmatch(token):
        return None
    request = f"GET /result/{token} HTTP/1.0\r\nHost: worker\r\nConnection: close\r\n\r\n".encode()
    try:
        answer = _ask((address, port), request, time.monotonic() + seconds)
    except OSError:
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if _FOUND.match(head) is None or length is None:
        return None
    if int(length[1]) > LARGEST_RESULT:
        raise DecodeError("", f"the answer has more than {LARGEST_RESULT >> 20} MiB")
    # It broke off: the next look asks again.
    return decode_json(cls, body) if len(body) == int(length[1]) else None


def _ask(place: tuple[str, int], request: bytes, deadline: float) -> bytes:
    """All that is answered. Raises OSError, also when it does not come in time."""
    answer = bytearray()
    with socket.create_connection(place, timeout=max(0.001, deadline - time.monotonic())) as connection:
        connection.sendall(request)
        while len(answer) <= _LONGEST_HEAD + LARGEST_RESULT:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the worker answers too slowly")
            connection.settimeout(left)
            piece = connection.recv(_PIECE)
            if not piece:
                break
            answer += piece
    return bytes(answer)
