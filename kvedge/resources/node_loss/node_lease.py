"""What a node's lease says: that its handler lives, whose guests it promises to end, and which ones are gone.

Written by the handler of the node, and by the controller when the node has been silent for too long. Both read it.
Pure. Every write names the version that its writer has read: so a node that is fenced and a node that renews cannot
both succeed. Nothing here is a time: both sides count by their own clocks, from the changes of the lease.

The object is a ConfigMap and no Lease: a handler may speak as its node, and Kubernetes lets a node write no Lease but
its kubelet's. It is in a namespace of its own, so that the right to write it is a right to write nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.node_loss.fence_terms import FenceTerms, TermsError, parse_terms
from kvedge.resources.types.core import ConfigMap

NODES_NAMESPACE: Final = "kvedge-nodes"
LEASE_PREFIX: Final = "fence."
# By this label the controller finds them.
OF_NODE: Final = "kvedge.io/fence-of-node"
# On a VM's template or a VMI: what is to happen when the node is lost.
ON_NODE_LOSS: Final = "kvedge.io/on-node-loss"
RESTART: Final = "restart"
WAIT: Final = "wait"
ON_NODE_LOSS_VALUES: Final = (WAIT, RESTART)
# On the lease.
_BOOT: Final = "kvedge.io/boot-id"
_WATCHDOG: Final = "kvedge.io/watchdog"
_TERMS: Final = "kvedge.io/fence-terms"
_PROMISED: Final = "kvedge.io/fences-vmis"
_GONE: Final = "kvedge.io/gone-vmis"
# For people, and so that each renewal is a change: nobody compares it with a clock.
_RENEWED: Final = "kvedge.io/renewed-at"
# Annotations of one object may have 256 KiB in all, and a UID has 36 bytes.
MOST_PROMISED: Final = 1000


class NodeFence(Struct, frozen=True):
    """What one lease says."""

    node: str = ""
    boot_id: str = ""
    # The watchdog that is armed; empty while there is none, and then silence proves nothing.
    watchdog: str = ""
    terms: FenceTerms | None = None
    # The UIDs of the VMIs whose guests the node ends when it cannot renew.
    promised: frozenset[str] = field(default_factory=frozenset)
    # Those of VMIs of which nothing runs on the node, by its own word or by the proof of its silence.
    gone: frozenset[str] = field(default_factory=frozenset)


def lease_name(node: str) -> str:
    """The name of a node's lease."""
    return LEASE_PREFIX + node


def read_fence(lease: ConfigMap) -> NodeFence:
    """What a lease says. Terms that cannot be understood are none: then silence proves nothing."""
    said = lease.metadata.annotations
    try:
        terms = parse_terms(said.get(_TERMS, ""))
    except TermsError:
        terms = None
    return NodeFence(
        node=lease.metadata.name.removeprefix(LEASE_PREFIX),
        boot_id=said.get(_BOOT, ""),
        watchdog=said.get(_WATCHDOG, ""),
        terms=terms,
        promised=_split(said.get(_PROMISED, "")),
        gone=_split(said.get(_GONE, "")),
    )


def new_lease(fence: NodeFence) -> ConfigMap:
    """The object that a node begins with."""
    metadata = ObjectMeta(
        name=lease_name(fence.node),
        namespace=NODES_NAMESPACE,
        labels={OF_NODE: "true"},
        annotations={name: text for name, text in _annotations(fence).items() if text is not None},
    )
    return ConfigMap(metadata=metadata)


def fence_patch(fence: NodeFence, renewed_at: str = "") -> JsonObject:
    """The body of a merge patch that has a lease say this; the node's own has the time."""
    renewed = {_RENEWED: renewed_at} if renewed_at else {}
    return {"metadata": {"annotations": {**_annotations(fence), **renewed}}}


def declare_gone(fence: NodeFence) -> NodeFence:
    """What a lease says once its node is fenced: the guests that it promised to end are gone."""
    return replace(fence, gone=fence.gone | fence.promised, promised=frozenset())


def asks_for_restart(annotations: Mapping[str, str]) -> bool:
    """Whether a VMI is to be ended on a lost node, and started elsewhere."""
    return annotations.get(ON_NODE_LOSS) == RESTART


def _annotations(fence: NodeFence) -> dict[str, str | None]:
    """Those of the lease; None takes one away."""
    return {
        _BOOT: fence.boot_id or None,
        _WATCHDOG: fence.watchdog or None,
        _TERMS: fence.terms.format() if fence.terms is not None else None,
        _PROMISED: ",".join(sorted(fence.promised)) or None,
        _GONE: ",".join(sorted(fence.gone)) or None,
    }


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) - {""}
