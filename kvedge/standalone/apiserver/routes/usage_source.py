"""Where `kubectl top` gets its figures from: the protocol between the API server and the node agent.

The node agent implements `UsageSource`; the API server calls it from worker threads, so it may block.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class Usage(Struct, frozen=True):
    """Billionths of a CPU, and bytes."""

    cpu: int
    memory: int


class MeasuredUsage(Struct, frozen=True):
    """What the node and its Pods used in so many seconds until a moment; Pods by their UIDs."""

    node: str
    moment: datetime
    window: float
    node_usage: Usage
    pods: Mapping[str, Usage]


class NoUsage(Exception):
    """There are no figures; the message says why, as the user reads it."""


class UsageSource(Protocol):
    """Measures what the node and its Pods use."""

    def measure_usage(self) -> MeasuredUsage:
        """What is used now. The first answer after a while takes a second.

        Raises:
            NoUsage: when nothing can be measured yet.
        """
