"""CustomResourceDefinitions: names, versions, structural schemas, columns; and that our own are sound."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.manifests.crd_manifest import crds
from kvedge.standalone.apiserver.kinds.custom.crd_rules import check_crd, check_crd_update

Object = dict[str, Any]


def crd(schema: Object | None = None, **version: Any) -> Object:
    found = {"type": "object", "properties": {"spec": schema or {"type": "object"}}}
    one = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": found}, **version}
    return {
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [one],
        },
    }


def schema_errors(schema: Object) -> list[str]:
    prefix = "spec.versions[0].schema.openAPIV3Schema.properties[spec]"
    return [error.text().removeprefix(prefix) for error in check_crd(crd(schema))]


@pytest.mark.parametrize("definition", crds(), ids=lambda definition: definition["metadata"]["name"])
def test_our_own_definitions_are_sound(definition: Object) -> None:
    assert [error.text() for error in check_crd(definition)] == []


def test_a_sound_definition_has_no_errors() -> None:
    definition = crd(
        {
            "type": "object",
            "properties": {
                "size": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "state": {"type": "string", "default": "off", "enum": ["on", "off"]},
                "disks": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                },
            },
            "oneOf": [{"required": ["size"]}, {"not": {"required": ["size"]}}],
        },
        additionalPrinterColumns=[
            {"name": "S", "type": "string", "jsonPath": ".spec.conditions[?(@.type=='Ready')].status"}
        ],
        selectableFields=[{"jsonPath": ".spec.state"}],
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    )
    assert check_crd(definition) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"group": "example"}, ["metadata.name", "spec.group"]),
        ({"group": ""}, ["metadata.name", "spec.group"]),
        ({"scope": "Galaxy"}, ["spec.scope"]),
        ({"scope": ""}, ["spec.scope"]),
        (
            {"names": {"plural": "Boxes", "kind": "9", "shortNames": ["B"]}},
            ["metadata.name", "spec.names.plural", "spec.names.kind", "spec.names.shortNames[0]"],
        ),
        ({"names": {}}, ["metadata.name", "spec.names.plural", "spec.names.kind"]),
        ({"names": {"plural": "boxes", "kind": "Box", "listKind": "Box"}}, ["spec.names.listKind"]),
        ({"preserveUnknownFields": True}, ["spec.preserveUnknownFields"]),
        ({"conversion": {"strategy": "Webhook"}}, ["spec.conversion.strategy"]),
        ({"versions": []}, ["spec.versions"]),
    ],
)
def test_a_definition_that_is_wrong_is_refused(change: Object, found: list[str]) -> None:
    definition = crd()
    definition["spec"] = {**definition["spec"], **change}
    assert [error.field for error in check_crd(definition)] == found


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ({"name": "1"}, ["name"]),
        ({"deprecationWarning": "old"}, ["deprecationWarning"]),
        (
            {"additionalPrinterColumns": [{}]},
            [f"additionalPrinterColumns[0].{field}" for field in ("name", "type", "jsonPath")],
        ),
        (
            {"additionalPrinterColumns": [{"name": "a", "type": "text", "format": "x", "jsonPath": ".a["}]},
            [f"additionalPrinterColumns[0].{field}" for field in ("type", "format", "jsonPath")],
        ),
        (
            {"selectableFields": [{}, {"jsonPath": "x"}, {"jsonPath": ".metadata.name"}, {"jsonPath": ".spec"}]},
            [f"selectableFields[{index}].jsonPath" for index in range(4)],
        ),
        (
            {"subresources": {"scale": {"statusReplicasPath": ".spec.x", "labelSelectorPath": "x"}}},
            [
                f"subresources.scale.{field}"
                for field in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
            ],
        ),
    ],
)
def test_a_version_that_is_wrong_is_refused(version: Object, found: list[str]) -> None:
    assert [error.field.removeprefix("spec.versions[0].") for error in check_crd(crd(**version))] == found


def test_a_version_has_a_schema() -> None:
    definition = crd()
    definition["spec"]["versions"][0]["schema"] = {}
    assert [error.field for error in check_crd(definition)] == ["spec.versions[0].schema.openAPIV3Schema"]


def test_exactly_one_version_is_stored_and_none_is_there_twice() -> None:
    definition = crd()
    definition["spec"]["versions"] *= 2
    assert [error.message for error in check_crd(definition)] == [
        "must contain unique version names",
        "must have exactly one version marked as storage version",
    ]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (
            {"type": "thing"},
            [
                (
                    '.type: Unsupported value: "thing": supported values: "array", "boolean", "integer", '
                    '"number", "object", "string"'
                )
            ],
        ),
        ({"type": "null"}, [".type: Forbidden: type cannot be set to null, use nullable as an alternative"]),
        ({"description": "x"}, [".type: Required value: must not be empty for specified object fields"]),
        ({"type": "array"}, [".items: Required value: must be specified"]),
        (
            {"type": "array", "items": [{"type": "string"}]},
            [".items: Forbidden: items must be a schema object and not an array"],
        ),
        (
            {"type": "array", "items": {"description": "x"}},
            [".items.type: Required value: must not be empty for specified array items"],
        ),
        ({"type": "object", "$ref": "#/x"}, [".$ref: Forbidden: $ref is not supported"]),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
            [".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
            [
                (
                    ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
                    "becomes quadratic"
                )
            ],
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            [".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
        ),
        (
            {"type": "object", "anyOf": [{"type": "string"}]},
            [".anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            {"type": "object", "not": {"properties": {"a": {"nullable": True}}}},
            [".not.properties[a].nullable: Forbidden: must be false to be structural"],
        ),
        (
            {"type": "object", "allOf": [{"properties": {"metadata": {"minProperties": 1}}}]},
            [".allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"],
        ),
        (
            {"type": "string", "pattern": "("},
            [
                (
                    '.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: missing ), '
                    "unterminated subpattern at position 0"
                )
            ],
        ),
        (
            {"type": "string", "default": 3},
            [
                '.default: Invalid value: "integer": spec.versions[0].schema.openAPIV3Schema.properties[spec]'
                '.default in body must be of type string: "integer"'
            ],
        ),
        (
            {"type": "object", "x-kubernetes-list-type": "set"},
            ['.type: Invalid value: "object": must be array if x-kubernetes-list-type is specified'],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"},
            ['.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"'],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["a"]},
            [".x-kubernetes-list-type: Invalid value: null: must be map if x-kubernetes-list-map-keys is non-empty"],
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            [".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
            },
            [
                (
                    ".items.properties[a].default: Required value: this property is in "
                    "x-kubernetes-list-map-keys, so it must have a default or be a required property"
                )
            ],
        ),
        (
            {"type": "string", "x-kubernetes-map-type": "atomic"},
            ['.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified'],
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [
                (
                    ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
                    "without x-kubernetes-preserve-unknown-fields"
                )
            ],
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": "true"}]},
            [
                (
                    ".x-kubernetes-validations: Forbidden: validation rules in CEL are not supported by "
                    "kvedge; remove them or express them as keywords"
                )
            ],
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(schema: Object, found: list[str]) -> None:
    assert schema_errors(schema) == found


def test_a_default_has_no_fields_that_its_schema_does_not_know() -> None:
    (error,) = check_crd(crd({"type": "object", "default": {"a": 1}}))
    assert (error.message, error.bad_value) == ("must not have unspecified fields", {"a": 1})


@pytest.mark.parametrize(
    ("root", "found"),
    [
        ({"type": "string"}, ["type"]),
        ({}, ["type"]),
        ({"type": "object", "nullable": True}, ["nullable"]),
        ({"type": "object", "default": {}}, ["default"]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, ["additionalProperties"]),
        ({"type": "object", "properties": {"kind": {"type": "integer"}}}, ["properties[kind].type"]),
        (
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
            },
            ["properties[metadata]"],
        ),
        (
            {
                "type": "object",
                "properties": {
                    "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}
                },
            },
            [],
        ),
    ],
)
def test_the_root_of_a_schema_has_rules_of_its_own(root: Object, found: list[str]) -> None:
    definition = crd(schema=None)
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": root}
    prefix = "spec.versions[0].schema.openAPIV3Schema."
    assert [error.field.removeprefix(prefix) for error in check_crd(definition)] == found


def test_an_update_keeps_identity_and_every_version_that_was_ever_stored() -> None:
    old = {**crd(), "status": {"storedVersions": ["v1", "v0"]}}
    assert [error.field for error in check_crd_update(crd(), old)] == ["status.storedVersions[1]"]
    changed = crd()
    changed["spec"] = {**changed["spec"], "scope": "Cluster", "group": "other.com"}
    assert [error.field for error in check_crd_update(changed, crd())] == ["spec.group", "spec.scope"]
