"""Which silence of a node is a proof."""

from __future__ import annotations

import pytest

from kvedge.controller.fencing.fence_rules import Verdict, describe_wait, judge_silence
from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.resources.node_loss.node_lease import NodeFence
from tests.support.values import replace

FENCE = NodeFence("n", "boot", "timer", FenceTerms(), frozenset({"a"}))


@pytest.mark.parametrize(
    ("fence", "silent", "verdict"),
    [
        pytest.param(FENCE, 119.0, Verdict(wait=1.0), id="not long enough"),
        pytest.param(FENCE, 120.0, Verdict(declare=True), id="long enough"),
        pytest.param(replace(FENCE, watchdog=""), 1e9, Verdict(), id="without a watchdog"),
        pytest.param(replace(FENCE, promised=frozenset()), 1e9, Verdict(), id="without a promise"),
        pytest.param(replace(FENCE, terms=None), 1e9, Verdict(), id="without terms"),
    ],
)
def test_which_silence_is_a_proof(fence: NodeFence, silent: float, verdict: Verdict) -> None:
    assert judge_silence(fence, silent) == verdict


def test_only_a_vm_that_was_promised_may_hope_for_it() -> None:
    assert "120 s" in describe_wait(FENCE, "a")
    assert describe_wait(FENCE, "b") == ""
