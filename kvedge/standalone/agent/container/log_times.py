"""When a container said what: times beside a log that has none.

A container writes its log itself, so that no process of ours is in its way; what is known of time is how long the log
was at which second. Called by the log keeper and by readers.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

# Milliseconds since the epoch, and the log's length in bytes at that time.
_ENTRY: Final = struct.Struct(">QQ")


class LogTimes(Struct, frozen=True):
    """Ascending lengths of a log and the times at which it had them."""

    lengths: tuple[int, ...]
    times: tuple[int, ...]

    def at(self, offset: int) -> datetime | None:
        """When the byte at `offset` was first seen, about a second after it was written; None when it is newer."""
        index = bisect.bisect_right(self.lengths, offset)
        if index >= len(self.times):
            return None
        return datetime.fromtimestamp(self.times[index] / 1000, UTC)

    def offset_since(self, moment: datetime) -> int:
        """From where on the log was written at or after `moment`."""
        index = bisect.bisect_left(self.times, int(moment.timestamp() * 1000))
        return self.lengths[index - 1] if index else 0


def times_path(log: Path) -> Path:
    """Where the times of a log are kept."""
    return log.with_name(f"{log.name}.times")


def read_times(log: Path) -> LogTimes:
    """What is known; nothing for a log that the keeper has not seen yet."""
    try:
        data = times_path(log).read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return LogTimes((), ())
    entries = list(_entries(data))
    return LogTimes(tuple(length for _, length in entries), tuple(moment for moment, _ in entries))


def add_time(log: Path, moment: float, length: int) -> None:
    """Note that the log is `length` bytes long at `moment`, in seconds since the epoch.

    Raises:
        OSError: as the file system has it.
    """
    with times_path(log).open("ab") as stream:
        stream.write(_ENTRY.pack(int(moment * 1000), length))


def _entries(data: bytes) -> Iterator[tuple[int, int]]:
    # A write that was cut short leaves a rest, which is left out.
    whole = len(data) - len(data) % _ENTRY.size
    last, most = (0, 0), int(datetime.max.replace(tzinfo=UTC).timestamp() * 1000)
    for entry in _ENTRY.iter_unpack(data[:whole]):
        # A damaged entry is out of order, mostly. It tells nothing, but the entries behind it may.
        if last[0] <= entry[0] < most and last[1] <= entry[1]:
            last = entry
            yield entry
