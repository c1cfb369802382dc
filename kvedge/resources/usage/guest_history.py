"""What a guest has used over time, as its node's handler keeps it: which figures, how far back, and their document.

Read by the handler, the api role and clients. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import KubeStruct

# The parameter of the call, and its value when a client names none.
RANGE: Final = "range"
DEFAULT_RANGE: Final = "hour"
# What is kept at each point: CPUs in use; vCPUs that wait for a CPU of the host or for I/O, as far as its kernel
# counts that; bytes; bytes a second. The place of each is that in files: a new one comes last.
CPUS: Final = "cpus"
WAIT: Final = "wait"
MEMORY: Final = "guestMemoryBytes"
READ: Final = "readBytesPerSecond"
WRITTEN: Final = "writtenBytesPerSecond"
RECEIVED: Final = "receivedBytesPerSecond"
SENT: Final = "sentBytesPerSecond"
SERIES: Final = (CPUS, WAIT, MEMORY, READ, WRITTEN, RECEIVED, SENT)


class Span(Struct, frozen=True):
    """So many points, one for each so many seconds: the mean of what was seen in them."""

    step: int
    points: int


# 38 KB for each guest.
SPANS: Final[Mapping[str, Span]] = {
    "hour": Span(step=10, points=360),
    "day": Span(step=300, points=288),
    "month": Span(step=3600, points=720),
}


class GuestHistory(KubeStruct, kw_only=True):
    """One span of one guest: `end` is when the last point ends, in seconds of Unix time.

    All series have a value for each point, oldest first; None where nothing was seen.
    """

    span: str = ""
    step: int = 0
    end: int = 0
    series: dict[str, list[float | None]] = {}
