"""What a guest has written to its serial console, as the launcher keeps it beneath the Pod's volume.

Called by the door to launchers, in a worker thread; of a guest that has ended, too, for as long as the Pod's directory
is there. The files may have been put there by a guest that broke out of QEMU: no link is followed, and of a file
however large a bounded part is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected, hold_open_beneath
from kvedge.resources.names import SERIAL_SOCKET

# The launcher keeps one megabyte and an older one, and a little more while a guest writes fast.
MOST_BYTES: Final = 4 << 20
_ROUNDS: Final = 3
# A file's number, which a later file may have again, and when it was written last.
Identity = tuple[int, int]


class LogRequest(Struct, frozen=True):
    """Which part: the last `tail_bytes`; with `previous` only what was moved out of the current file."""

    tail_bytes: int = MOST_BYTES
    previous: bool = False


class BadLogRequest(Exception):
    """The query makes no sense; the text names the parameter."""


def log_request(query: Mapping[str, str]) -> LogRequest:
    """The request in a query.

    Raises:
        BadLogRequest: when a parameter is not what it should be.
    """
    tail, previous = query.get("tailBytes", str(MOST_BYTES)), query.get("previous", "false")
    if not (tail.isascii() and tail.isdigit()) or int(tail[:20]) == 0:
        raise BadLogRequest(f"tailBytes: {tail[:40]} is no positive number of bytes")
    if previous not in ("true", "false"):
        raise BadLogRequest("previous: it has to be true or false")
    return LogRequest(min(int(tail[:20]), MOST_BYTES), previous == "true")


def read_console_log(volume: Path, vmi_uid: str, wanted: LogRequest) -> bytes:
    """The log's bytes, raw, of a Pod's volume `private`.

    Raises:
        NotThere: when there is none.
        Unexpected: when something else than a launcher's file lies there.
    """
    current = f"{vmi_uid}/{SERIAL_SOCKET}-log"
    older = f"{current}.1"
    if wanted.previous:
        return _read_tail(volume, older, wanted.tail_bytes)[0]
    for _ in range(_ROUNDS):
        before = _older(volume, older, 0)[1]
        newest = _read_tail(volume, current, wanted.tail_bytes)[0]
        rest, found = _older(volume, older, wanted.tail_bytes - len(newest))
        # When the log was cut in between, a part is here twice.
        if found == before:
            break
    return rest + newest


def _older(volume: Path, relative: str, limit: int) -> tuple[bytes, Identity]:
    try:
        return _read_tail(volume, relative, limit)
    except NotThere:
        return b"", (0, 0)


def _read_tail(volume: Path, relative: str, limit: int) -> tuple[bytes, Identity]:
    """The last `limit` bytes of a regular file, and which file that was."""
    with hold_open_beneath(volume, relative) as descriptor:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Unexpected(f"{volume}/{relative}", "no regular file")
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            file.seek(max(0, facts.st_size - limit))
            return file.read(limit), (facts.st_ino, facts.st_mtime_ns)
