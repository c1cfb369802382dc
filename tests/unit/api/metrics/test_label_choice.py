"""Labels of VMs become labels of a series as a site says, by names that Prometheus takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.api.metrics.label_choice import MOST_LABELS, NOTHING, LabelChoice, read_choice
from kvedge.resources.codec import JsonObject

LABELS = {"app": "web", "team.example.com/name": "a", "secret": "x"}


@pytest.mark.parametrize(
    ("config_map", "names"),
    [
        ({}, {"label_app", "label_team_example_com_name", "label_secret"}),
        ({"data": {"ignorelist": "secret, other"}}, {"label_app", "label_team_example_com_name"}),
        ({"data": {"allowlist": "app , team.example.com/name"}}, {"label_app", "label_team_example_com_name"}),
        ({"data": {"allowlist": "app,*", "ignorelist": "app"}}, {"label_team_example_com_name", "label_secret"}),
        ({"data": {"allowlist": ""}}, set()),
        ({"data": {"allowlist": 5}}, set()),
    ],
    ids=["no word", "all but some", "some", "all, and not one", "none", "no text"],
)
def test_the_site_chooses(config_map: JsonObject, names: set[str]) -> None:
    assert read_choice(config_map).choose(LABELS).keys() == names


def test_before_it_has_chosen_nothing_is_told() -> None:
    assert NOTHING.choose(LABELS) == {}


def test_two_that_have_one_name_are_one_and_there_are_never_many() -> None:
    assert LabelChoice().choose({"a.b": "1", "a/b": "2"}) == {"label_a_b": "1"}
    assert len(LabelChoice().choose({f"l{number}": "" for number in range(1000)})) == MOST_LABELS


@given(st.dictionaries(st.text(max_size=300), st.text(max_size=5), max_size=5))
def test_each_name_is_one_that_prometheus_takes(labels: dict[str, str]) -> None:
    for name in LabelChoice().choose(labels):
        assert re.fullmatch(r"label_[a-zA-Z_][a-zA-Z0-9_]*", name)
