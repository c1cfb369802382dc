"""Names that are longer than a label's value."""

from __future__ import annotations

import pytest

from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.name_grammar import LABEL_LENGTH, LABEL_VALUE


@pytest.mark.parametrize("length", [1, 62, 63])
def test_a_name_that_fits_stays_as_it_is(length: int) -> None:
    assert as_label_value("x" * length) == "x" * length


def test_longer_names_are_cut_and_stay_apart() -> None:
    values = {as_label_value("x" * length) for length in (64, 65, 253)}
    assert len(values) == 3
    assert all(len(value) == LABEL_LENGTH and LABEL_VALUE.fullmatch(value) for value in values)


def test_a_cut_name_is_kubevirts_by_which_virtctl_finds_pods() -> None:
    assert as_label_value("v" + "0" * 148 + "x") == "v" + "0" * 53 + "-" + "8881d2f4"
