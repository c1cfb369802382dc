"""The names of a ReplicaSet's VMIs."""

from __future__ import annotations

import re

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.replica_names import base_name, free_names
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from tests.support.builders import replica_set_of, small_vmi


def a_set(uid: str = "u1", **template: str) -> VirtualMachineInstanceReplicaSet:
    document = replica_set_of(small_vmi())
    document["metadata"]["uid"] = uid
    document["spec"]["template"]["metadata"] |= template
    return decode(VirtualMachineInstanceReplicaSet, document)


@pytest.mark.parametrize(
    ("template", "base", "field"),
    [
        ({}, "web", "metadata.name"),
        ({"generateName": "shop-"}, "shop-", "spec.template.metadata.generateName"),
        ({"name": "shop", "generateName": "x-"}, "shop", "spec.template.metadata.name"),
    ],
)
def test_names_begin_as_the_template_or_the_set_says(template: dict[str, str], base: str, field: str) -> None:
    assert base_name(a_set(**template)) == (base, field)


def test_names_end_as_a_servers_would_and_no_dash_is_added() -> None:
    (name,) = free_names(a_set(), 1, lambda _: False)
    assert re.fullmatch(r"web[bcdfghjklmnpqrstvwxz2456789]{5}", name)


def test_the_same_set_tries_the_same_names_and_another_one_others() -> None:
    first, again = ([*free_names(a_set(), 50, lambda _: False)] for _ in range(2))
    assert first == again
    assert len(set(first)) == 50
    assert not set(first) & {*free_names(a_set(uid="u2"), 50, lambda _: False)}


def test_names_that_somebody_has_are_left_out() -> None:
    free = [*free_names(a_set(), 5, lambda _: False)]
    taken = {free[0], free[3]}
    assert [*free_names(a_set(), 3, taken.__contains__)] == [free[1], free[2], free[4]]


def test_names_that_were_asked_for_come_first() -> None:
    free = [*free_names(a_set(), 5, lambda _: False)]
    assert [*free_names(a_set(), 2, lambda _: False, [free[4]])] == [free[4], free[0]]
    assert [*free_names(a_set(), 2, {free[4]}.__contains__, [free[4]])] == free[:2]
    assert [*free_names(a_set(), 1, lambda _: False, [free[0]])] == [free[0]]
