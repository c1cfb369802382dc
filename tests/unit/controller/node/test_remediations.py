# Tests: kvedge/resources/node_loss/remediations.py
"""Which nodes Medik8s has reset, by its objects."""

from __future__ import annotations

import pytest

from kvedge.controller.node.node_plan import node_state
from kvedge.controller.node.remediations import Remediations
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.node_loss.remediations import RemediationStatus, SelfNodeRemediation
from kvedge.resources.types.core import Node
from tests.unit.controller.migrations.small_server import Cache


def a_remediation(name: str, phase: str | None, node: str = "") -> SelfNodeRemediation:
    annotations = {"remediation.medik8s.io/node-name": node} if node else {}
    metadata = ObjectMeta(name=name, namespace="medik8s", resource_version="1", annotations=annotations)
    return SelfNodeRemediation(metadata=metadata, status=RemediationStatus(phase=phase))


@pytest.mark.parametrize(
    ("phase", "is_reset"),
    [
        (None, False),
        ("Fencing-Started", False),
        ("Pre-Reboot-Completed", False),
        ("Reboot-Completed", True),
        ("Fencing-Completed", True),
    ],
)
def test_only_what_comes_after_the_reset_is_a_proof(phase: str | None, is_reset: bool) -> None:
    cache = Cache()
    found = Remediations(cache)  # type: ignore[arg-type]
    told: list[str] = []
    found.on_change(told.append)
    cache.hear(a_remediation("n1", phase), gone=False)
    cache.hear(a_remediation("made-for-n2", phase, "n2"), gone=False)
    assert [found.is_reset(node) for node in ("n1", "n2", "n3")] == [is_reset, is_reset, False]
    assert told == ["n1", "n2"]


@pytest.mark.parametrize(("ready", "given_up"), [("True", False), ("Unknown", True)])
def test_a_node_whose_kubelet_is_back_is_no_longer_given_up(ready: str, given_up: bool) -> None:
    node = Node(metadata=ObjectMeta(name="n1"))
    node.status.conditions = [{"type": "Ready", "status": ready}]
    assert node_state(node, 0.0, is_reset=True).out_of_service is given_up
