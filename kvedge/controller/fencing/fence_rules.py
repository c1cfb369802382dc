"""Decides when a node counts as fenced, by what its lease says and for how long it has said that.

Called by the fence loop. Pure. The proof is in `resources/node_loss/fence_terms`.
"""

from __future__ import annotations

from msgspec import Struct

from kvedge.resources.node_loss.node_lease import NodeFence


class Verdict(Struct, frozen=True):
    """What to do about one lease; `wait` is in how many seconds to look again, None for never by itself."""

    declare: bool = False
    wait: float | None = None


def judge_silence(fence: NodeFence, silent_seconds: float) -> Verdict:
    """Whether the node's guests that were promised are surely gone.

    Only an armed watchdog proves that of a kernel that hangs. Without one, and without a promise, silence says nothing.
    """
    if not fence.promised or not fence.watchdog or fence.terms is None:
        return Verdict()
    left = fence.terms.gone_after - silent_seconds
    return Verdict(declare=True) if left <= 0 else Verdict(wait=left)


def describe_wait(fence: NodeFence, vmi_uid: str) -> str:
    """What the VM's user may wait for while its node is silent."""
    if vmi_uid not in fence.promised or fence.terms is None or not fence.watchdog:
        return ""
    return f"it has been silent for {fence.terms.gone_after} s, and has thus ended its guests by itself"
