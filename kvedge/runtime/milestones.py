"""When the steps of one start were first reached: what `kvedge trace` draws.

Kept by the launcher for its run and by the handler for each launcher; the client reads what they tell. Reads the wall
clock, as several processes have to be compared. Every launcher imports it: nothing but `time` is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

# The launcher's, in the order in which a start reaches them. The first is its monitor's, to 10 ms.
CONTAINER_STARTED: Final = "container-started"
LAUNCHER_BEGUN: Final = "launcher-begun"
IMPORTS_DONE: Final = "imports-done"
LIBVIRT_OPENED: Final = "libvirt-opened"
SERVING: Final = "serving"
HANDED_OVER: Final = "handed-over"
FILES_READY: Final = "files-ready"
DOMAIN_DEFINED: Final = "domain-defined"
DHCP_READY: Final = "dhcp-ready"
START_ASKED: Final = "start-asked"
STARTED: Final = "started"
STATUS_PUBLISHED: Final = "status-published"
AGENT_CONNECTED: Final = "agent-connected"
# The handler's.
POD_SEEN: Final = "pod-seen"
LAUNCHER_CONNECTED: Final = "launcher-connected"
SYNC_BEGUN: Final = "sync-begun"
NETWORK_READY: Final = "network-ready"
SYNC_DONE: Final = "sync-done"
STATUS_PATCHED: Final = "status-patched"
# More than there are names: what an old record or a newer launcher has beyond that is left out.
MOST: Final = 32


def unix_ms() -> int:
    """The wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Milestones:
    """One start. A step that is repeated keeps its first time. Threads may share it."""

    def __init__(self) -> None:
        """None yet."""
        self._reached: dict[str, int] = {}
        self._is_over = False

    def note(self, step: str, at: int | None = None) -> bool:
        """Keep that a step was reached `at` this time, or now; whether it was the first time."""
        if self._is_over or step in self._reached or len(self._reached) >= MOST:
            return False
        self._reached[step] = unix_ms() if at is None else at
        return True

    def take_over(self, known: Mapping[str, int]) -> None:
        """Have the times of the process that started the guest; nothing of this one is a step of that start."""
        self._is_over = True
        self._reached = dict(list(known.items())[:MOST])

    def times(self) -> dict[str, int]:
        """The steps, each with its time."""
        return dict(self._reached)
