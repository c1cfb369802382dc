"""Structural schemas: every error with its path and wording, defaults, pruning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.schema.structural_schema import apply_defaults, prune, validate
from kvedge.standalone.apiserver.wire.json_values import clone, same
from tests.unit.standalone.apiserver.json_strategies import OBJECTS, VALUES

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def in_spec(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (INTEGER, "5", 'spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'),
        (INTEGER, 1.5, 'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"'),
        (INTEGER, True, 'spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"'),
        (INTEGER, None, 'spec.x: Invalid value: "null": spec.x in body must be of type integer: "null"'),
        (STRING, {"a": 1}, 'spec.x: Invalid value: "object": spec.x in body must be of type string: "object"'),
        (STRING, ["a"], 'spec.x: Invalid value: "array": spec.x in body must be of type string: "array"'),
        ({"type": "object"}, "a", 'spec.x: Invalid value: "string": spec.x in body must be of type object: "string"'),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            "spec.x: Invalid value: 2147483648: Checked value must be of type integer with format int32 in spec.x",
        ),
        (
            INTEGER,
            2**63,
            "spec.x: Invalid value: 9223372036854775808: "
            "Checked value must be of type integer (default format) in spec.x",
        ),
        (
            {"type": "integer", "minimum": 0},
            -1,
            "spec.x: Invalid value: -1: spec.x in body should be greater than or equal to 0",
        ),
        (
            {"type": "integer", "maximum": 9, "exclusiveMaximum": True},
            9,
            "spec.x: Invalid value: 9: spec.x in body should be less than 9",
        ),
        ({"type": "integer", "multipleOf": 4}, 6, "spec.x: Invalid value: 6: spec.x in body should be a multiple of 4"),
        (
            {"type": "number", "minimum": 0.5},
            0.25,
            "spec.x: Invalid value: 0.25: spec.x in body should be greater than or equal to 0.5",
        ),
        ({"type": "string", "maxLength": 3}, "abcd", "spec.x: Too long: may not be more than 3 bytes"),
        (
            {"type": "string", "minLength": 3},
            "a",
            'spec.x: Invalid value: "a": spec.x in body should be at least 3 chars long',
        ),
        (
            {"type": "string", "pattern": "^[a-z]+$"},
            "A",
            "spec.x: Invalid value: \"A\": spec.x in body should match '^[a-z]+$'",
        ),
        (
            {"type": "string", "pattern": "^[a-z]+$"},
            "a\n",
            "spec.x: Invalid value: \"a\\n\": spec.x in body should match '^[a-z]+$'",
        ),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'spec.x: Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "integer", "enum": [1, 2]}, 3, 'spec.x: Unsupported value: 3: supported values: "1", "2"'),
        (
            {"type": "string", "format": "date-time"},
            "today",
            'spec.x: Invalid value: "today": spec.x in body must be of type date-time: "today"',
        ),
        (
            {"type": "array", "items": STRING, "minItems": 1},
            [],
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            {"type": "array", "items": STRING, "maxItems": 1},
            ["a", "b"],
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "array", "items": INTEGER},
            [1, "a"],
            'spec.x[1]: Invalid value: "string": spec.x[1] in body must be of type integer: "string"',
        ),
        (
            {"type": "array", "uniqueItems": True},
            [1, 2, 1],
            'spec.x: Invalid value: "": spec.x in body shouldn\'t contain duplicates',
        ),
        ({"type": "object", "required": ["name"]}, {}, "spec.x.name: Required value"),
        (
            {"type": "object", "additionalProperties": INTEGER},
            {"k": "v"},
            'spec.x.k: Invalid value: "string": spec.x.k in body must be of type integer: "string"',
        ),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "spec.x: Too many: 2: must have at most 1 item"),
        (
            {"type": "object", "additionalProperties": False},
            {"k": 1},
            'spec.x: Invalid value: "k": spec.x.k in body is a forbidden property',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"',
        ),
        ({"not": {"enum": ["a"]}}, "a", 'spec.x: Invalid value: "": "spec.x" must not validate the schema (not)'),
        ({"type": "array", "x-kubernetes-list-type": "set"}, ["a", "b", "a", "a"], 'spec.x[2]: Duplicate value: "a"'),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            {"apiVersion": "v1"},
            "spec.x.kind: Required value",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named_as_kubernetes_names_it(
    schema: dict[str, Any], value: Any, text: str
) -> None:
    assert [error.text() for error in validate(in_spec(schema), {"spec": {"x": value}})] == [text]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INTEGER, 5),
        (INTEGER, 5.0),
        ({"type": "number"}, 5),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"x-kubernetes-int-or-string": True}, 50),
        ({"type": "string", "format": "date-time"}, "2026-02-03T04:05:06.123456789Z"),
        ({"type": "string", "format": "no-such-format"}, "anything"),
        ({"type": "string", "format": "ipv4"}, "10.0.0.1"),
        ({"type": "string", "format": "cidr"}, "10.0.0.0/8"),
        ({"type": "string", "format": "mac"}, "02:00:00:00:00:01"),
        ({"type": "string", "format": "uuid"}, "5D307CA9-B3EF-428C-8861-06E72D69F223"),
        ({"type": "string", "format": "byte"}, "aGVsbG8="),
        ({"type": "string", "format": "duration"}, "1h30m"),
        ({"type": "string", "pattern": "^[[:alpha:]]$"}, "a"),
        ({"anyOf": [INTEGER, STRING]}, "a"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}),
    ],
)
def test_a_value_that_fits_has_no_errors(schema: dict[str, Any], value: Any) -> None:
    assert validate(in_spec(schema), {"spec": {"x": value}}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ipv4", "fe80::1"),
        ("ipv4", "10.0.0"),
        ("ipv6", "10.0.0.1"),
        ("cidr", "10.0.0.1"),
        ("mac", "02:00:00-00:00:01"),
        ("uuid", "123"),
        ("date", "2026-02-30"),
        ("date-time", "2026-02-03"),
        ("byte", "***"),
        ("duration", "an hour"),
        ("uri", "no uri"),
        ("hostname", "-a.example"),
        ("email", "nobody"),
        ("rgbcolor", "rgb(1,2,256)"),
    ],
)
def test_a_text_that_is_not_of_its_format_is_refused(name: str, value: str) -> None:
    errors = validate({"type": "string", "format": name}, value, "f")
    assert [error.message for error in errors] == [f'f in body must be of type {name}: "{value}"']


def test_two_items_of_a_map_with_the_same_keys_are_duplicates() -> None:
    items = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}
    value = [{"name": "a", "port": 1}, {"name": "a"}, {"name": "a", "port": 1, "x": 2}, None, {}]
    errors = validate(in_spec(items), {"spec": {"x": value}})
    assert [(error.field, error.bad_value) for error in errors] == [
        ("spec.x[2]", {"name": "a", "port": 1}),
        ("spec.x[4]", {}),
    ]
    assert [error.message for error in validate(in_spec(items), {"spec": {"x": ["a"]}})] == [
        "must be an object for an array of list-type map"
    ]


def test_every_error_is_reported_with_the_path_of_its_field() -> None:
    disk = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": STRING, "bootOrder": {"type": "integer", "minimum": 1}},
    }
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"disks": {"type": "array", "items": disk}, "running": {"type": "boolean"}},
            }
        },
    }
    document = {"spec": {"disks": [{"bootOrder": 0}, {"name": 3}], "running": "yes"}}
    assert [error.field for error in validate(schema, document)] == [
        "spec.disks[0].bootOrder",
        "spec.disks[0].name",
        "spec.disks[1].name",
        "spec.running",
    ]
    assert [error.field for error in validate(schema, {})] == ["spec"]


def test_a_failed_choice_says_so_and_shows_the_nearest_alternative() -> None:
    schema = in_spec({"oneOf": [{"required": ["a", "b"]}, {"required": ["c"]}]})
    errors = validate(schema, {"spec": {"x": {}}})
    assert [error.text() for error in errors] == [
        'spec.x: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
        "spec.x.c: Required value",
    ]
    both = validate(schema, {"spec": {"x": {"a": 1, "b": 1, "c": 1}}})
    assert [error.message for error in both] == [
        '"spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives'
    ]
    needed = validate(in_spec({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}), {"spec": {"x": {}}})
    assert [error.field for error in needed] == ["spec.x.a", "spec.x.b", "spec.x"]
    assert needed[-1].message == '"spec.x" must validate all the schemas (allOf). None validated'
    neither = validate(in_spec({"anyOf": [INTEGER, {"type": "boolean"}]}), {"spec": {"x": "a"}})
    assert neither[0].message == '"spec.x" must validate at least one schema (anyOf)'


def test_an_embedded_object_is_checked_as_an_object() -> None:
    schema = in_spec(
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    )
    embedded = {"apiVersion": "a/b/c", "kind": "no kind", "metadata": {"labels": {"a b": "c"}}}
    assert [error.field for error in validate(schema, {"spec": {"x": embedded}})] == [
        "spec.x.apiVersion",
        "spec.x.kind",
        "spec.x.metadata.labels",
    ]


DEFAULTS = {
    "type": "object",
    "properties": {
        "running": {"type": "boolean", "default": False},
        "cpu": {"type": "object", "default": {}, "properties": {"cores": {"type": "integer", "default": 1}}},
        "disks": {
            "type": "array",
            "items": {"type": "object", "properties": {"bus": {"type": "string", "default": "virtio"}}},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string", "default": "none"}},
        "note": {"type": "string", "nullable": True, "default": "x"},
    },
}


def test_defaults_fill_what_is_absent_at_every_depth() -> None:
    assert apply_defaults(DEFAULTS, {"disks": [{}, {"bus": "sata"}]}) == {
        "disks": [{"bus": "virtio"}, {"bus": "sata"}],
        "running": False,
        "cpu": {"cores": 1},
        "note": "x",
    }


def test_a_null_is_absence_unless_the_schema_allows_it() -> None:
    filled = apply_defaults(DEFAULTS, {"running": None, "disks": None, "labels": {"a": None}, "note": None})
    assert filled == {"running": False, "labels": {"a": "none"}, "note": None, "cpu": {"cores": 1}}


PRUNED = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "known": STRING,
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"strict": {"type": "object", "properties": {"a": STRING}}},
                },
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": STRING}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": STRING}}},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
            },
        }
    },
}


def test_pruning_drops_what_the_schema_does_not_know_and_says_where_it_was() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Box",
        "metadata": {"name": "a", "anything": {"goes": 1}},
        "extra": 1,
        "spec": {
            "known": "a",
            "unknown": {"b": 1},
            "free": {"any": {"thing": 1}, "strict": {"a": "1", "b": 2}},
            "list": [{"a": "1"}, {"b": 2}],
            "map": {"x": {"a": "1", "b": 2}},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": {"b": 1}, "status": {}},
        },
    }
    kept, unknown = prune(PRUNED, document)
    assert kept == {
        "apiVersion": "v1",
        "kind": "Box",
        "metadata": {"name": "a", "anything": {"goes": 1}},
        "spec": {
            "known": "a",
            "free": {"any": {"thing": 1}, "strict": {"a": "1"}},
            "list": [{"a": "1"}, {}],
            "map": {"x": {"a": "1"}},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": {}},
        },
    }
    assert unknown == [
        "extra",
        "spec.free.strict.b",
        "spec.list[1].b",
        "spec.map.x.b",
        "spec.template.spec.b",
        "spec.template.status",
        "spec.unknown",
    ]


_flags = st.fixed_dictionaries(
    {}, optional={"nullable": st.booleans(), "x-kubernetes-preserve-unknown-fields": st.booleans(), "default": VALUES}
)
_schemas = st.recursive(
    st.builds(lambda kind, flags: {"type": kind, **flags}, st.sampled_from(["string", "integer", "boolean"]), _flags),
    lambda inner: st.one_of(
        st.builds(
            lambda properties, flags: {"type": "object", "properties": properties, **flags},
            st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
            _flags,
        ),
        st.builds(lambda items, flags: {"type": "array", "items": items, **flags}, inner, _flags),
        st.builds(
            lambda additional, flags: {"type": "object", "additionalProperties": additional, **flags}, inner, _flags
        ),
    ),
    max_leaves=6,
)


@given(_schemas, OBJECTS)
def test_pruning_twice_is_pruning_once_and_touches_no_input(schema: Any, document: Any) -> None:
    before = clone(document)
    kept, _ = prune(schema, document)
    assert prune(schema, kept) == (kept, [])
    assert same(document, before)


@given(_schemas, OBJECTS)
def test_defaulting_twice_is_defaulting_once_and_touches_no_input(schema: Any, document: Any) -> None:
    before = clone(document)
    filled = apply_defaults(schema, document)
    assert same(apply_defaults(schema, filled), filled)
    assert same(document, before)


@given(_schemas, VALUES)
def test_any_value_can_be_validated(schema: Any, value: Any) -> None:
    for error in validate(schema, value, "spec"):
        assert error.field.startswith("spec")
