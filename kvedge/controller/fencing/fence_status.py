"""What the KubeVirt object's status says of nodes that fence themselves.

Called for the loop of the KubeVirt object. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kvedge.resources.meta import Condition
from kvedge.resources.node_loss.fence_terms import SELF_FENCING, FenceTerms, TermsError, parse_terms
from kvedge.resources.node_loss.node_lease import NodeFence
from kvedge.resources.types.kubevirt import NODES_FENCE

# So many nodes are named.
_MOST_NODES: Final = 20


def judge_fencing(annotations: Mapping[str, str], fences: Iterable[NodeFence]) -> Condition | None:
    """The condition NodesFenceThemselves; None where nobody has asked for it."""
    try:
        terms = parse_terms(annotations.get(SELF_FENCING, ""))
    except TermsError as error:
        text = f"metadata.annotations[{SELF_FENCING}]: {error}"
        return Condition(type=NODES_FENCE, status="False", reason="InvalidTerms", message=text)
    if terms is None:
        return None
    return Condition(type=NODES_FENCE, status="True", reason="Enabled", message=_describe(terms, fences))


def _describe(terms: FenceTerms, fences: Iterable[NodeFence]) -> str:
    armed = sorted(
        f"{fence.node} ({fence.watchdog}; {len(fence.promised)})"
        for fence in fences
        if fence.watchdog and fence.promised
    )
    text = f"VMs that ask for it are started elsewhere {terms.gone_after} s after the last word of their node"
    if not armed:
        return f"{text}; no node has promised to end a guest: none asks for it, or no node has a watchdog"
    more = [f"{len(armed) - _MOST_NODES} more"] if len(armed) > _MOST_NODES else []
    return f"{text}; nodes with their watchdogs and numbers of such VMs: {', '.join([*armed[:_MOST_NODES], *more])}"
