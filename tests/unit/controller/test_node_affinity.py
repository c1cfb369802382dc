"""The affinity to one node, away from one, and away from those with a label."""

from __future__ import annotations

import pytest

from kvedge.controller.node_affinity import off_node, on_node, without_label
from kvedge.resources.codec import JsonObject


def test_a_pod_is_bound_by_the_nodes_name_and_not_by_a_label_that_may_differ() -> None:
    (term,) = on_node("n2")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}


AWAY = {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}


def required(*terms: JsonObject) -> JsonObject:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("own", "made"),
    [
        (None, required({"matchFields": [AWAY]})),
        (
            required({"matchExpressions": [SSD]}, {}),
            required({"matchExpressions": [SSD], "matchFields": [AWAY]}),
        ),
        (required({}), required({})),
        ({"podAffinity": {"x": 1}}, {"podAffinity": {"x": 1}, **required({"matchFields": [AWAY]})}),
    ],
    ids=["alone", "with every term", "no term matches", "beside others"],
)
def test_a_pod_keeps_away_from_a_node_and_to_what_it_asks_for(own: JsonObject | None, made: JsonObject) -> None:
    assert off_node(own, "n2") == made


LACKS = {"key": "old", "operator": "DoesNotExist"}


@pytest.mark.parametrize(
    ("own", "made"),
    [
        (None, required({"matchExpressions": [LACKS]})),
        (
            required({"matchExpressions": [SSD]}, {"matchFields": [AWAY]}, {}),
            required({"matchExpressions": [SSD, LACKS]}, {"matchFields": [AWAY], "matchExpressions": [LACKS]}),
        ),
        (required({}), required({})),
        ({"podAffinity": {"x": 1}}, {"podAffinity": {"x": 1}, **required({"matchExpressions": [LACKS]})}),
    ],
    ids=["alone", "with every term", "no term matches", "beside others"],
)
def test_a_pod_keeps_away_from_nodes_with_a_label_too(own: JsonObject | None, made: JsonObject) -> None:
    assert without_label(own, "old") == made
