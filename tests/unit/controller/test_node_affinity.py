"""The affinity to one node."""

from __future__ import annotations

from kvedge.controller.node_affinity import on_node


def test_a_pod_is_bound_by_the_nodes_name_and_not_by_a_label_that_may_differ() -> None:
    (term,) = on_node("n2")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
