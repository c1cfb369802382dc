"""Quantities that are added up: exact, and written as Kubernetes writes them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.values.quantities import parse_quantity
from kvedge.standalone.apiserver.wire.amounts import Amount, amount_of, amounts_of, join_amounts, largest, total


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        (1, "1"),
        ("1000", "1k"),
        ("1.5", "1500m"),
        ("0.1", "100m"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1.5Ki", "1536"),
        ("1025Ki", "1025Ki"),
        ("2500M", "2500M"),
        ("1e3", "1k"),
        ("100n", "100n"),
        ("0.1n", "1n"),
        ("8E", "8E"),
        ("2048E", "9223372036854775807"),
    ],
)
def test_an_amount_is_written_as_short_as_can_be_without_loss(written: str | int, shown: str) -> None:
    assert amount_of(written).text == shown


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_what_is_written_means_the_same(number: int, suffix: str) -> None:
    assert parse_quantity(amount_of(f"{number}{suffix}").text) == parse_quantity(f"{number}{suffix}")


def test_a_sum_is_written_as_its_first_part_was() -> None:
    assert (amount_of("1Gi") + amount_of("1M")).binary
    assert not (amount_of("1M") + amount_of("1Gi")).binary
    assert (amount_of("0") + amount_of("1Gi")).text == "1Gi"
    assert (amount_of("3Gi") - amount_of("1Gi")).text == "2Gi"


def test_amounts_are_added_and_compared_name_by_name() -> None:
    one, other = amounts_of({"a": "1", "b": "2"}), amounts_of({"b": "3", "c": "x"})
    assert join_amounts(total((one, other))) == "a=1,b=5"
    assert join_amounts(largest((one, other))) == "a=1,b=3"
    assert Amount(Fraction(5, 2)).round_up().text == "3"
