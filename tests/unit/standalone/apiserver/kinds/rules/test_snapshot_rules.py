# Tests: kvedge/standalone/apiserver/kinds/rules/snapshot_rules.py
# Tests: kvedge/standalone/apiserver/kinds/groups/snapshots.py
# Tests: kvedge/standalone/apiserver/kinds/types/builtin_types_snapshots.py
"""Snapshots of claims say what the external-snapshotter's definitions let them say, and keep it."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.apiserver.kinds.rules import snapshot_rules

OF_CLAIM = {"persistentVolumeClaimName": "data"}
OF_CONTENT = {"volumeSnapshotContentName": "kept"}
HANDLE = {"snapshotHandle": "kvedge/snapshot-1"}
CONTENT = {
    "driver": "kvedge.io/box",
    "deletionPolicy": "Delete",
    "source": {"volumeHandle": "pvc-1"},
    "volumeSnapshotRef": {"name": "first", "namespace": "default"},
}
BOTH = "exactly one of {} and {} must be set"
OF_SNAPSHOT = BOTH.format("volumeSnapshotContentName", "persistentVolumeClaimName")
OF_HANDLE = BOTH.format("volumeHandle", "snapshotHandle")


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        ({"source": OF_CLAIM}, []),
        ({"source": OF_CONTENT, "volumeSnapshotClassName": "kvedge"}, []),
        (None, ["spec: Required value"]),
        ({}, ["spec.source: Required value"]),
        ({"source": {}}, [f'spec.source: Invalid value: "object": {OF_SNAPSHOT}']),
        ({"source": {**OF_CLAIM, **OF_CONTENT}}, [f'spec.source: Invalid value: "object": {OF_SNAPSHOT}']),
        (
            {"source": OF_CLAIM, "volumeSnapshotClassName": ""},
            [
                'spec.volumeSnapshotClassName: Invalid value: "string": volumeSnapshotClassName must not be the empty'
                " string when set"
            ],
        ),
    ],
)
def test_a_snapshot_is_of_a_claim_or_of_a_content(spec: Any, texts: list[str]) -> None:
    made = {} if spec is None else {"spec": spec}
    assert [error.text() for error in snapshot_rules.check_snapshot(made)] == texts


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (OF_CLAIM, ""),
        (
            {"persistentVolumeClaimName": "other"},
            'spec.source.persistentVolumeClaimName: Invalid value: "string": persistentVolumeClaimName is immutable',
        ),
        (OF_CONTENT, 'spec.source: Invalid value: "object": persistentVolumeClaimName is required once set'),
    ],
)
def test_a_snapshot_keeps_its_source(source: dict[str, str], text: str) -> None:
    new, old = {"spec": {"source": source}}, {"spec": {"source": OF_CLAIM}}
    assert "".join(error.text() for error in snapshot_rules.check_snapshot_update(new, old)) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, ""),
        ({"deletionPolicy": None}, "spec.deletionPolicy: Required value"),
        (
            {"deletionPolicy": "Keep"},
            'spec.deletionPolicy: Unsupported value: "Keep": supported values: "Delete", "Retain"',
        ),
        ({"driver": None}, "spec.driver: Required value"),
        ({"source": None}, "spec.source: Required value"),
        ({"source": {}}, f'spec.source: Invalid value: "object": {OF_HANDLE}'),
        ({"volumeSnapshotRef": None}, "spec.volumeSnapshotRef: Required value"),
        (
            {"volumeSnapshotRef": {"name": "first"}},
            'spec.volumeSnapshotRef: Invalid value: "object": both spec.volumeSnapshotRef.name and'
            " spec.volumeSnapshotRef.namespace must be set",
        ),
    ],
)
def test_a_content_is_whole(change: dict[str, Any], text: str) -> None:
    spec = {key: value for key, value in {**CONTENT, **change}.items() if value is not None}
    assert "".join(error.text() for error in snapshot_rules.check_content({"spec": spec})) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"deletionPolicy": "Retain"}, ""),
        ({"source": {"volumeHandle": "pvc-2"}}, "volumeHandle is immutable"),
        ({"source": HANDLE}, "volumeHandle is required once set"),
        ({"sourceVolumeMode": "Block"}, "sourceVolumeMode is immutable"),
        ({"sourceVolumeMode": None}, "sourceVolumeMode is required once set"),
    ],
)
def test_a_content_keeps_what_it_is_of(change: dict[str, Any], text: str) -> None:
    old = {**CONTENT, "sourceVolumeMode": "Filesystem"}
    new = {key: value for key, value in {**old, **change}.items() if value is not None}
    errors = [error.text() for error in snapshot_rules.check_content_update({"spec": new}, {"spec": old})]
    assert [error.endswith(text) for error in errors] == ([True] if text else [])


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({"driver": "kvedge.io/box", "deletionPolicy": "Retain"}, ""),
        ({"deletionPolicy": "Retain"}, "driver: Required value"),
        ({"driver": "kvedge.io/box"}, "deletionPolicy: Required value"),
    ],
)
def test_a_class_names_its_driver_and_what_becomes_of_snapshots(made: dict[str, str], text: str) -> None:
    assert "".join(error.text() for error in snapshot_rules.check_class(made)) == text
