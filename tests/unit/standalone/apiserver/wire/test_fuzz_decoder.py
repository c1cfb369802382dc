# Tests: kvedge/standalone/apiserver/wire/document_decoder.py, kvedge/standalone/apiserver/wire/json_values.py
"""The fuzz target of the request decoder: whatever comes is a document or a refusal, within its bounds."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.document_decoder import Document, decode
from kvedge.standalone.apiserver.wire.json_values import MAX_DEPTH, is_deep, same
from tests.support.mutations import as_json, changed, torn

ROUNDS = 4000

_SEEDS: tuple[Any, ...] = (
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v\n"}},
    {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}]}},
    [{"op": "add", "path": "/metadata/labels/a~1b", "value": 1.5e3}, {"op": "test", "path": "", "value": None}],
    {"a": [1, -1, 0.1, 2**53, 1e300, True, None, "", "é🦆\u2028", [[[[]]]], {"b": {"c": {}}}]},
)
_YAML = (
    b"apiVersion: v1\nmetadata:\n  name: a\n  labels: {x: y, 'on': \"no\"}\ndata:\n  text: |\n    one\n    two\n",
    b"a: 2020-01-01\nb: 0x1F\nc: 1_000\nd: 012\ne: .5\nf: yes\ng: ~\nh: !!str 5\ni: !!binary aGVsbG8=\n? k\n: v\n",
    b"- &x a\n- *x\n- {<<: {a: b}, c: d}\n- 'it''s'\n- >-\n  folded\n  text\n",
    b"%YAML 1.1\n---\na: [1, 2, {b: c}]\n...\n",
)


def decoded(body: bytes, is_yaml: bool) -> Document | None:
    """The document; None when it was refused. Any other end is a finding."""
    try:
        return decode(body, is_yaml)
    except BadRequest:
        return None


def check(body: bytes, is_yaml: bool) -> bool:
    """Hold what came of a body against what it must be; whether it was a document."""
    found = decoded(body, is_yaml)
    if found is None:
        return False
    assert not is_deep(found.value, MAX_DEPTH)
    # What goes in comes out of the store as it was.
    again = msgspec.json.decode(msgspec.json.encode(found.value))
    assert same(again, found.value)
    assert all(isinstance(text, str) for text in found.duplicates)
    return True


def test_torn_json_is_a_document_or_a_refusal() -> None:
    chance, documents = random.Random(1), 0
    for _ in range(ROUNDS):
        body = torn(as_json(changed(chance.choice(_SEEDS), chance)), chance)
        documents += check(body, is_yaml=False)
        if (found := decoded(body, False)) is not None:
            assert same(found.value, json.loads(body))
    # Both happen, or the fuzzing is worth nothing.
    assert ROUNDS // 20 < documents < ROUNDS


def test_torn_yaml_is_a_document_or_a_refusal() -> None:
    chance, documents = random.Random(2), 0
    for _ in range(ROUNDS // 4):
        documents += check(torn(chance.choice(_YAML), chance), is_yaml=True)
    assert ROUNDS // 80 < documents < ROUNDS // 4


@given(st.binary(max_size=200))
@settings(derandomize=True, max_examples=500)
def test_any_bytes_are_a_document_or_a_refusal(body: bytes) -> None:
    check(body, is_yaml=False)
    check(body, is_yaml=True)


_documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(_documents)
@settings(derandomize=True, max_examples=400)
def test_a_document_is_read_as_it_was_written(document: Any) -> None:
    assert same(decode(msgspec.json.encode(document)).value, document)
    assert decode(msgspec.json.encode(document)).duplicates == ()
    assert decode(json.dumps(document, indent=3).encode()).duplicates == ()


@given(
    st.recursive(
        st.integers(0, 9) | st.sampled_from(["a", "b c"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=10,
    )
)
@settings(derandomize=True, max_examples=150)
def test_yaml_is_read_as_json_would_be(document: Any) -> None:
    text = yaml.safe_dump({"document": document}, default_flow_style=False)
    if "&id" not in text:
        assert same(decode(text.encode(), is_yaml=True).value, {"document": document})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a":1,"a":2}', ('duplicate field "a"',)),
        (b'{"a":{"b":[{"c":1,"c":1}]}}', ('duplicate field "a.b[0].c"',)),
        (b'{"a":{"b":1},"a":{"b":2,"b":3}}', ('duplicate field "a"', 'duplicate field "a.b"')),
        (b'{"a":1,"b":1}', ()),
        (b'{ "a" : "\\u0061:\\"a\\":" }', ()),
    ],
)
def test_keys_that_stand_twice_are_named(body: bytes, expected: tuple[str, ...]) -> None:
    assert decode(body).duplicates == expected


def test_keys_that_stand_twice_in_yaml_are_named_by_line() -> None:
    assert decode(b"a: 1\nb:\n  c: 1\n  c: 2\n", is_yaml=True).duplicates == ('line 4: key "c" already set in map',)


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 900, 100_000])
@pytest.mark.parametrize("is_yaml", [False, True], ids=["json", "yaml"])
def test_depth_is_bounded_exactly(levels: int, is_yaml: bool) -> None:
    found = decoded(b"[" * levels + b"]" * levels, is_yaml)
    assert (found is not None) == (levels <= MAX_DEPTH)
    found = decoded(b'{"a":' * levels + b"1" + b"}" * levels, is_yaml)
    assert (found is not None) == (levels <= MAX_DEPTH)
