"""The one arbiter: what becomes of a guest that two launchers know of.

Called by the target's handler with the latest words of both launchers. Pure. A word may be old: decisions rest only on
words that stay true. `GONE` and `KEPT` of the source do. A guest is let run on the source's own word alone: one that
went without a word may have gone on, or have shut down, before its Pod ended, and the copy would be of an earlier
moment. Whether the target is complete, its launcher looks again when it is told to go on.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kvedge.rpc.launcher_pb2 import (
    INCOMING_COMPLETE,
    INCOMING_EMPTY,
    INCOMING_FAILED,
    INCOMING_OWNED,
    INCOMING_READY,
    OUTGOING_GONE,
    OUTGOING_KEPT,
    OUTGOING_RESUMING,
    IncomingState,
    OutgoingState,
)


class Ruling(Enum):
    """What is done about it."""

    WAIT = "nothing is decided yet"
    RELEASE = "let the guest run on the target"
    ABORT = "tell the source that the guest stays"
    DISCARD = "end what is on the target: the guest stays on the source"
    GIVE_UP = "the source is off, and nothing seems to have come: look again, and end what waits for it"
    MOVED = "the guest runs on the target"
    LOST = "the guest is on neither side"


class OutcomeSeen(NamedTuple):
    """`source` and `target` are the latest words, None when nobody has said one yet. `source_is_off` says that the
    source's Pod is proven to be gone, whatever its last word was; `target_is_gone` likewise. `unwanted` says that the
    migration was cancelled, or its VMI is to end.
    """

    source: OutgoingState | None
    target: IncomingState | None
    source_is_off: bool = False
    target_is_gone: bool = False
    unwanted: bool = False


def rule(seen: OutcomeSeen) -> Ruling:
    """The decision; it may be taken again and again."""
    if seen.target == INCOMING_OWNED:
        return Ruling.MOVED
    if seen.source in (OUTGOING_KEPT, OUTGOING_RESUMING):
        return Ruling.DISCARD
    hopeless = seen.target_is_gone or seen.target == INCOMING_FAILED
    if seen.source == OUTGOING_GONE or seen.source_is_off:
        if hopeless or seen.source != OUTGOING_GONE:
            return Ruling.LOST
        if seen.target in (INCOMING_EMPTY, INCOMING_READY):
            # Nobody is left that could send it. The word may be old all the same.
            return Ruling.GIVE_UP
        # A cancel that comes now is too late: there is no other guest.
        return Ruling.RELEASE if seen.target == INCOMING_COMPLETE else Ruling.WAIT
    # A source that has not begun is asked as well: the word may be old, and one that was asked never begins any more.
    return Ruling.ABORT if seen.unwanted or hopeless else Ruling.WAIT
