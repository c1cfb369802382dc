"""What a process with roles in it counts of itself, as handlers tell the api role.

Made in `kube/figures/`, read by the api role. Times are seconds. Touches nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from kvedge.resources.codec import KubeStruct

# The longest answer of a node that is read: it has some hundred queues and calls.
LARGEST_ROLE_STATS: Final = 1 << 20


class Times(KubeStruct, kw_only=True):
    """How long something took: how often at most each of the bounds and more than the one before, and last more than
    all; and all times together.
    """

    bounds: list[float] = []
    counts: list[int] = []
    total: float = 0.0


class QueueStats(KubeStruct, kw_only=True):
    """One queue of work."""

    name: str = ""
    depth: int = 0
    adds: int = 0
    retries: int = 0
    longest: float = 0.0
    unfinished: float = 0.0
    waited: Times = field(default_factory=Times)
    worked: Times = field(default_factory=Times)


class CallStats(KubeStruct, kw_only=True):
    """Calls to the API server that had the same outcome."""

    code: str = ""
    method: str = ""
    host: str = ""
    resource: str = ""
    verb: str = ""
    count: int = 0


class LatencyStats(KubeStruct, kw_only=True):
    """How long the API server took to answer calls of one kind."""

    verb: str = ""
    url: str = ""
    times: Times = field(default_factory=Times)


class StreamStats(KubeStruct, kw_only=True):
    """Streams to one guest: how many of each kind are open, and when the last one ended (Unix time), or 0."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    open: dict[str, int] = {}
    ended: int = 0


class TransitionStats(KubeStruct, kw_only=True):
    """How long VMIs or migrations took to a phase: `kind` is from which moment on, by names of ours."""

    kind: str = ""
    phase: str = ""
    last_phase: str = ""
    times: Times = field(default_factory=Times)


class VmiCount(KubeStruct, kw_only=True):
    """How often something happened to a VMI."""

    namespace: str = ""
    name: str = ""
    count: int = 0


class RoleStats(KubeStruct, kw_only=True):
    """One process: `process` tells it from all others; `figures` and `states` by names of ours."""

    process: str = ""
    figures: dict[str, float] = {}
    states: dict[str, bool] = {}
    queues: list[QueueStats] = []
    calls: list[CallStats] = []
    latencies: list[LatencyStats] = []
    streams: list[StreamStats] = []
    transitions: list[TransitionStats] = []
    syncs: list[VmiCount] = []
    panics: list[VmiCount] = []
    # Of a handler's node.
    deprecated_machines: list[str] = []
