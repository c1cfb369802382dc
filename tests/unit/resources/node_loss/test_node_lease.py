"""What a node's lease says is read as it was written."""

from __future__ import annotations

from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.resources.node_loss.node_lease import (
    NodeFence,
    asks_for_restart,
    declare_gone,
    fence_patch,
    new_lease,
    read_fence,
)

FENCE = NodeFence("n1", "boot", "softdog, 20 s", FenceTerms(), frozenset({"a", "b"}), frozenset({"c"}))


def test_a_lease_says_what_its_node_has_written() -> None:
    lease = new_lease(FENCE)
    assert (lease.metadata.namespace, lease.metadata.name) == ("kvedge-nodes", "fence.n1")
    assert read_fence(lease) == FENCE


def test_a_patch_takes_away_what_is_no_longer_so() -> None:
    lease, empty = new_lease(FENCE), NodeFence("n1", "boot")
    lease.metadata.annotations = {
        key: text
        for key, text in {**lease.metadata.annotations, **fence_patch(empty)["metadata"]["annotations"]}.items()
        if text is not None
    }
    assert read_fence(lease) == empty


def test_terms_that_nobody_understands_are_none() -> None:
    lease = new_lease(FENCE)
    lease.metadata.annotations["kvedge.io/fence-terms"] = "soon"
    assert read_fence(lease).terms is None


def test_all_that_was_promised_is_gone_once_a_node_is_fenced() -> None:
    fenced = declare_gone(FENCE)
    assert (fenced.promised, fenced.gone) == (frozenset(), frozenset({"a", "b", "c"}))


def test_only_the_one_word_asks_for_a_restart() -> None:
    assert asks_for_restart({"kvedge.io/on-node-loss": "restart"})
    assert not asks_for_restart({"kvedge.io/on-node-loss": "wait"})
    assert not asks_for_restart({})
