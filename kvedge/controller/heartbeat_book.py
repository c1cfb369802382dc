"""When this controller saw the heartbeat of each node change.

Kept by the node loop. Touches nothing; the moments are those of the controller's own monotonic clock.

The heartbeat is an annotation that a node's handler writes by the node's clock, which may be an hour off, or jump.
So it is never compared with a clock of ours: one that changes is a sign of life, whatever it says. A new controller
has seen nothing yet and gives every node the full time; and the time in which nobody could have told us is not the
node's fault.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(slots=True)
class _Beat:
    """What a heartbeat said last, and when it began to say so."""

    text: str
    since: float


class HeartbeatBook:
    """Heartbeats by node; safe for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beats: dict[str, _Beat] = {}
        self._blind_until = 0.0

    def note(self, node: str, heartbeat: str, now: float) -> None:
        """A node was seen with this heartbeat; an empty one is none."""
        with self._lock:
            known = self._beats.get(node)
            if not heartbeat:
                self._beats.pop(node, None)
            elif known is None or known.text != heartbeat:
                self._beats[node] = _Beat(heartbeat, now)

    def forget(self, node: str) -> None:
        """The node is gone."""
        with self._lock:
            self._beats.pop(node, None)

    def blind(self, now: float) -> None:
        """The API server tells nothing, up to now at least: no node can be heard."""
        with self._lock:
            self._blind_until = max(self._blind_until, now)

    def silent_seconds(self, node: str, now: float) -> float | None:
        """For how long a node could have been heard and was not; None for one that never had a heartbeat."""
        with self._lock:
            beat = self._beats.get(node)
            return None if beat is None else max(0.0, now - max(beat.since, self._blind_until))
