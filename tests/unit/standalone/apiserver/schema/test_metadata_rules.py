"""Names and metadata: what Kubernetes accepts and how it refuses the rest."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.apiserver.schema.metadata_rules import check_metadata, check_metadata_update
from kvedge.standalone.apiserver.wire import name_rules

NAMED = {"name": "a", "namespace": "n"}


def texts(metadata: dict[str, Any], namespaced: bool = True) -> list[str]:
    return [error.text() for error in check_metadata(metadata, namespaced, name_rules.dns_subdomain)]


@pytest.mark.parametrize(
    ("metadata", "starts"),
    [
        pytest.param(
            {"namespace": "n"}, ["metadata.name: Required value: name or generateName is required"], id="no name"
        ),
        pytest.param(
            {**NAMED, "name": "A"},
            ['metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist'],
            id="capital",
        ),
        pytest.param({**NAMED, "generateName": "A-"}, ['metadata.generateName: Invalid value: "A-"'], id="bad prefix"),
        pytest.param({"name": "a"}, ["metadata.namespace: Required value"], id="no namespace"),
        pytest.param(
            {**NAMED, "namespace": "a.b"},
            ['metadata.namespace: Invalid value: "a.b": must not contain dots'],
            id="dots",
        ),
        pytest.param(
            {**NAMED, "labels": {"a/b/c": "x"}},
            ['metadata.labels: Invalid value: "a/b/c": a valid label key'],
            id="label key",
        ),
        pytest.param({**NAMED, "labels": {"a": "x" * 64}}, ['metadata.labels: Invalid value: "xxx'], id="label value"),
        pytest.param(
            {**NAMED, "annotations": {"/a": ""}},
            ['metadata.annotations: Invalid value: "/a": prefix part must be non-empty'],
            id="annotation key",
        ),
        pytest.param(
            {**NAMED, "annotations": {"a": "x" * 262144}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="large annotations",
        ),
        pytest.param(
            {**NAMED, "finalizers": ["a b"]},
            ['metadata.finalizers: Invalid value: "a b": name part must consist'],
            id="finalizer",
        ),
        pytest.param(
            {**NAMED, "finalizers": ["orphan", "foregroundDeletion"]},
            ["metadata.finalizers: Invalid value"],
            id="two ways to delete",
        ),
        pytest.param(
            {**NAMED, "ownerReferences": [{"apiVersion": "v1", "kind": "Pod"}]},
            ["metadata.ownerReferences[0].name: Required value", "metadata.ownerReferences[0].uid: Required value"],
            id="owner without identity",
        ),
        pytest.param(
            {
                **NAMED,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": kind, "name": "x", "uid": "1", "controller": True}
                    for kind in ("A", "B")
                ],
            },
            ["metadata.ownerReferences: Invalid value"],
            id="two controllers",
        ),
        pytest.param(
            {**NAMED, "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "1"}]},
            ["metadata.ownerReferences[0]: Invalid value"],
            id="an event as owner",
        ),
        pytest.param(
            {**NAMED, "managedFields": [{"operation": "Guess"}]},
            ["metadata.managedFields[0].operation: Unsupported value"],
            id="operation",
        ),
    ],
)
def test_metadata_that_is_wrong_is_refused_with_every_cause(metadata: dict[str, Any], starts: list[str]) -> None:
    found = texts(metadata)
    assert len(found) == len(starts)
    assert all(text.startswith(start) for text, start in zip(found, starts, strict=True)), found


def test_sound_metadata_has_no_errors() -> None:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "vm", "uid": "1", "controller": True}
    metadata = {
        **NAMED,
        "generateName": "a-",
        "labels": {"kubevirt.io/domain": "a", "empty": ""},
        "annotations": {"Example.COM/Key": "anything goes"},
        "finalizers": ["foregroundDeleteVirtualMachine"],
        "ownerReferences": [owner],
    }
    assert texts(metadata) == []
    assert texts({"name": "a"}, namespaced=False) == []
    assert texts(NAMED, namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_an_update_may_not_change_who_the_object_is() -> None:
    old = {**NAMED, "uid": "1", "resourceVersion": "5", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert check_metadata_update({**old, "labels": {"a": "b"}}, old) == []
    changed = {**old, "uid": "2", "generation": 2, "resourceVersion": ""}
    assert [error.text() for error in check_metadata_update(changed, old)] == [
        'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        "metadata.generation: Invalid value: 2: must not be decremented",
        'metadata.uid: Invalid value: "2": field is immutable',
    ]


def test_what_is_being_deleted_takes_no_new_finalizers() -> None:
    old = {**NAMED, "resourceVersion": "5", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a", "b"]}
    assert check_metadata_update({**old, "finalizers": ["a"]}, old) == []
    errors = check_metadata_update({**old, "finalizers": ["a", "c"]}, old)
    assert [error.message for error in errors] == [
        'no new finalizers can be added if the object is being deleted, found new finalizers []string{"c"}'
    ]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (name_rules.dns_label, ["a", "a-1", "1a"], ["", "-a", "a.b", "A", "a" * 64]),
        (name_rules.dns_subdomain, ["a.b", "a"], ["", "a..b", "a_b", "a" * 254]),
        (name_rules.dns1035_label, ["a", "a-1"], ["1a", "a.b", ""]),
        (name_rules.path_segment, ["a:b", "A.B", ""], [".", "..", "a/b", "a%b"]),
        (name_rules.label_key, ["a", "A_b.c", "x.y/a"], ["", "/a", "a/", "a/b/c", "X.y/a", "a" * 64]),
        (name_rules.label_value, ["", "a", "A_b.c"], ["-a", "a b", "a" * 64]),
        (name_rules.config_key, ["a.b", ".a", "A_b"], ["", "a/b", ".", "..", "..a", "a" * 254]),
        (name_rules.env_name, ["A", "_a", "a.b-c"], ["", "1a", "a=b", ".."]),
        (name_rules.port_name, ["web", "a-1"], ["", "1", "A", "a--b", "-a", "a" * 16]),
    ],
)
def test_a_naming_rule_accepts_and_refuses(rule: Any, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if rule(value)] == []
    assert [value for value in bad if not rule(value)] == []


def test_ports_are_numbers_from_1_to_65535() -> None:
    assert name_rules.port_number(1) == name_rules.port_number(65535) == []
    assert name_rules.port_number(0) == name_rules.port_number(65536) == ["must be between 1 and 65535, inclusive"]
