"""Which bytes of a file a client asks for: the headers Range and If-Range of RFC 9110.

Called by export_answers.py. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_ONE_RANGE: Final = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})", re.ASCII)


class ByteRange(Struct, frozen=True):
    """From `start` up to, and not with, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many bytes these are."""
        return self.end - self.start


class Unsatisfiable(Exception):
    """The range lies outside the file."""


def asked_range(header: str, size: int) -> ByteRange | None:
    """The part of a file of this size that a client asks for; None for all of it.

    What is no single range of bytes is left unread, as the standard allows: the client gets all.

    Raises:
        Unsatisfiable: when nothing of it is in the file.
    """
    found = _ONE_RANGE.fullmatch(header.replace(" ", ""))
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    if not first:
        # The last so many bytes.
        if int(last) == 0 or size == 0:
            raise Unsatisfiable
        return ByteRange(max(0, size - int(last)), size)
    start = int(first)
    if last and int(last) < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return ByteRange(start, min(int(last) + 1, size) if last else size)


def is_same_file(if_range: str, tag: str, modified: str) -> bool:
    """Whether what the client has the beginning of is the file that is there now; `if_range` is empty without one."""
    return not if_range or if_range in (tag, modified)
