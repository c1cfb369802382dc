"""Decides what a node's fencer does now, and what the node's lease is to say next.

Called by the fence service. Pure. The arithmetic and its proof are in `resources/node_loss/fence_terms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.resources.node_loss.node_lease import MOST_PROMISED, NodeFence


class Order(Enum):
    """What one look of the fencer comes to."""

    # Nothing is promised: the machine may live as it likes.
    REST = "rest"
    FEED = "feed"
    # Kill all that was promised, and feed only if nothing of it is left.
    KILL = "kill"


class Promise(Struct, frozen=True):
    """What this node has promised; kept in a record that a handler which starts anew finds."""

    boot_id: str = ""
    # On CLOCK_BOOTTIME: when the last renewal was sent that was answered.
    t_ok: float = 0.0
    terms: FenceTerms | None = None
    # By the UID of a VMI that of its Pod, which may not be known.
    guests: Mapping[str, str] = field(default_factory=dict)
    # Those that the lease calls gone: they are killed wherever they still are, and never started.
    gone: frozenset[str] = field(default_factory=frozenset)


def plan_look(promise: Promise, now: float) -> Order:
    """What the fencer does at this moment of CLOCK_BOOTTIME."""
    if promise.gone & promise.guests.keys():
        return Order.KILL
    if not promise.guests or promise.terms is None:
        return Order.REST
    return Order.KILL if promise.terms.is_over(promise.t_ok, now) else Order.FEED


def refuse_start(promise: Promise, vmi_uid: str, now: float) -> str:
    """Why nothing of a VMI may begin on this node now; empty when it may."""
    if vmi_uid in promise.gone:
        return "this node has been fenced, and the VM may run elsewhere"
    if vmi_uid in promise.guests and plan_look(promise, now) is Order.KILL:
        return "this node cannot reach the API server, and has ended the guests that may be started elsewhere"
    return ""


def choose_promised(wanted: Mapping[str, str], gone: frozenset[str]) -> dict[str, str]:
    """Those of the guests that ask for it for which the lease has room."""
    return {uid: wanted[uid] for uid in sorted(wanted.keys() - gone)[:MOST_PROMISED]}


def widen(promise: Promise, wanted: Mapping[str, str], terms: FenceTerms) -> Promise:
    """What has to be in the record before the lease promises it."""
    return replace(promise, terms=promise.terms or terms, guests={**promise.guests, **wanted})


def narrow(promise: Promise, lease: NodeFence) -> Promise:
    """What is left of the promise once the server has taken this lease."""
    kept = {uid: pod for uid, pod in promise.guests.items() if uid in lease.promised}
    return replace(promise, guests=kept, terms=promise.terms if kept else None, gone=lease.gone)


def next_lease(lease: NodeFence, promised: frozenset[str], here: frozenset[str], watchdog: str) -> NodeFence:
    """What the lease says after the next renewal. `here` are the VMIs that the API has on this node."""
    return replace(
        lease,
        watchdog=watchdog,
        promised=promised,
        # A VMI that has ended, or has left, needs the word no longer.
        gone=(lease.gone & here) - promised,
    )


def after_boot(lease: NodeFence, boot_id: str) -> NodeFence:
    """The lease of an earlier boot: nothing that it promised can have outlived that."""
    if lease.boot_id == boot_id:
        return lease
    return replace(lease, boot_id=boot_id, gone=lease.gone | lease.promised, promised=frozenset(), watchdog="")
