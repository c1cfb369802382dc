"""Kubernetes quantities: exact, bounded, and back."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.values.quantities import QuantityError, format_bytes, format_milli, parse_bytes, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("4G", 4 * 10**9, id="decimal suffix"),
        pytest.param("2Gi", 2 * 2**30, id="binary suffix"),
        pytest.param("1.5Gi", 3 * 2**29, id="a fraction"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("2E", 2 * 10**18, id="E is exa, not an exponent"),
        pytest.param(".5Ki", 512, id="no leading digit"),
        pytest.param(7, 7, id="a number"),
        pytest.param("0", 0, id="zero"),
        pytest.param("+1k", 1000, id="a sign"),
        pytest.param("12E", 2**63 - 1, id="beyond what 64 bits hold"),
        pytest.param(1e300, 2**63 - 1, id="a number beyond what 64 bits hold"),
        pytest.param("-1e400", 1 - 2**63, id="below what 64 bits hold"),
    ],
)
def test_a_size_is_exact(text: str | int | float, value: int) -> None:
    assert parse_bytes(text) == value


def test_thousandths_are_exact_and_bytes_round_up() -> None:
    assert parse_quantity("100m") == Fraction(1, 10)
    assert parse_bytes("1500m") == 2


@pytest.mark.parametrize("text", ["", "G", "1 G", "4GB", "1e", "0x10", "1" * 65, "--1", "1.2.3", "NaN", "1Gi "])
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(QuantityError, match="512Mi"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, float("nan"), float("inf")])
def test_values_that_look_like_numbers_are_refused(value: float) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)


@given(st.integers(min_value=0, max_value=2**62))
def test_a_formatted_size_means_the_same(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


@given(st.integers(min_value=0, max_value=10**9))
def test_formatted_thousandths_mean_the_same(milli: int) -> None:
    assert parse_quantity(format_milli(Fraction(milli, 1000))) == Fraction(milli, 1000)


def test_sizes_read_as_people_write_them() -> None:
    assert [format_bytes(size) for size in (288 << 20, 4 * 10**9, 1500, 0)] == ["288Mi", "4G", "1500", "0"]
    assert [format_milli(Fraction(value)) for value in (2, "0.1")] == ["2", "100m"]
