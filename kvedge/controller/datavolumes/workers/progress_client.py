"""Asks a worker how far it is.

Called by data_volume_loop.py. Opens one connection to a Pod's address. The worker has read hostile data: its answer is
bounded in size and time, and taken for a percentage or for nothing.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Final

from kvedge.resources.types.import_job import PROGRESS_PORT

_SECONDS: Final = 1.0
_MOST_BYTES: Final = 4096
_REQUEST: Final = b"GET /progress HTTP/1.0\r\nHost: worker\r\nConnection: close\r\n\r\n"
_PROGRESS: Final = re.compile(rb'"progress"\s*:\s*"(\d{1,3}(?:\.\d{1,2})?%)"')


def ask_progress(address: str, port: int = PROGRESS_PORT) -> str:
    """Such as 12.34%; empty when the worker does not say it within a second."""
    deadline = time.monotonic() + _SECONDS
    try:
        with socket.create_connection((address, port), timeout=_SECONDS) as connection:
            connection.sendall(_REQUEST)
            answer = _read(connection, deadline)
    except OSError:
        return ""
    found = _PROGRESS.search(answer)
    return found[1].decode() if found else ""


def _read(connection: socket.socket, deadline: float) -> bytes:
    answer = b""
    while len(answer) < _MOST_BYTES and (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        part = connection.recv(_MOST_BYTES - len(answer))
        if not part:
            break
        answer += part
    return answer
