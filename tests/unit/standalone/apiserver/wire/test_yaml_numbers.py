# Tests: kvedge/standalone/apiserver/wire/document_decoder.py
"""YAML's scalars as Kubernetes reads them, and what of them is refused before it is made."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest
from kvedge.standalone.apiserver.wire.document_decoder import MOST_STEPS, MOST_VALUES, decode


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("-1:59", "-1:59"),
        ("1:30.5", "1:30.5"),
        ("22:22", "22:22"),
        ("2001-01-01", "2001-01-01"),
        ("1_000", 1000),
        ("0b101", 5),
        ("0x1F", 31),
        ("0777", 511),
        ("-12", -12),
        ("+12", 12),
        ("1.5", 1.5),
        ("-.5", "-.5"),
        (".5", 0.5),
        ("6.8e+5", 680000.0),
        ("yes", True),
        ("~", None),
        ("08", "08"),
    ],
)
def test_a_plain_scalar_is_what_kubernetes_makes_of_it(text: str, value: Any) -> None:
    found = decode(f"a: {text}".encode(), is_yaml=True).value["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("tag", ["int", "float"])
@pytest.mark.parametrize("text", ["1:59", "1:59:59.5", "1" * 401, "0x" + "f" * 401])
def test_a_tag_does_not_make_a_number_of_it(tag: str, text: str) -> None:
    with pytest.raises(BadRequest, match="number"):
        decode(f'a: !!{tag} "{text}"'.encode(), is_yaml=True)


def test_merge_keys_are_counted() -> None:
    assert decode(b"a: {<<: {b: 1}, c: 2}", is_yaml=True).value == {"a": {"b": 1, "c": 2}}
    with pytest.raises(BadRequest, match="one merge key"):
        decode(b"a: {<<: {b: 1}, <<: {c: 2}}", is_yaml=True)
    with pytest.raises(BadRequest, match="one merge key"):
        decode(b"a: {<<: {<<: {}, <<: {}}}", is_yaml=True)


@pytest.mark.parametrize("is_yaml", [False, True])
def test_more_values_than_any_object_has_are_refused(is_yaml: bool) -> None:
    assert len(decode(b"[" + b"1," * (MOST_VALUES - 1) + b"1]", is_yaml).value) == MOST_VALUES
    with pytest.raises(ApiError, match="at most") as refused:
        decode(b"[" + b"1," * MOST_VALUES + b"1]", is_yaml)
    assert refused.value.code == 413


def test_values_that_stand_deep_count_for_more() -> None:
    deep = b'{"a":' * 100 + b"[" + b"1," * (MOST_STEPS // 100) + b"1]" + b"}" * 100
    with pytest.raises(ApiError, match="at most"):
        decode(deep)


def test_yaml_is_refused_before_it_is_all_read() -> None:
    with pytest.raises(ApiError, match="at most"):
        decode(b"[" + b"a," * (4 * MOST_VALUES), is_yaml=True)
