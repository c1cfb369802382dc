"""A Pod's fields as files, in the kubelet's form."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.pod.place.pod_fields import BadField, downward_files

POD = decode(
    Pod,
    {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "u",
            "labels": {"b": "2", "a": 'say "1"'},
            "annotations": {"site/x": "line\nbreak"},
        },
        "spec": {
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1500m"}, "limits": {"memory": "64Mi"}}},
            ]
        },
    },
)


def text(item: dict[str, Any]) -> str:
    return downward_files(POD, [{"path": "f", **item}], 0o644)["f"].data.decode()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "n"),
        ("metadata.uid", "u"),
        ("metadata.labels", 'a="say \\"1\\""\nb="2"'),
        ("metadata.labels['b']", "2"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['site/x']", "line\nbreak"),
    ],
)
def test_a_field_is_written_as_the_kubelet_writes_it(path: str, expected: str) -> None:
    assert text({"fieldRef": {"fieldPath": path}}) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"resource": "requests.cpu"}, "2"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "limits.memory", "divisor": "0"}, str(64 << 20)),
    ],
    ids=["whole cores, rounded up", "millicores", "mebibytes", "no divisor"],
)
def test_a_resource_is_counted_in_its_divisor(source: dict[str, Any], expected: str) -> None:
    assert text({"resourceFieldRef": {"containerName": "c", **source}}) == expected


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "fieldPath spec.nodeName"),
        ({"resourceFieldRef": {"containerName": "x", "resource": "limits.cpu"}}, "no container x"),
        ({"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}, "has no limits.cpu"),
        ({"resourceFieldRef": {"containerName": "c", "resource": "cpu"}}, "neither limits.NAME"),
        ({}, "neither fieldRef nor resourceFieldRef"),
    ],
    ids=["field of no file", "unknown container", "no limit", "no resource", "nothing"],
)
def test_what_cannot_be_a_file_is_named(item: dict[str, Any], words: str) -> None:
    with pytest.raises(BadField, match=words):
        text(item)


def test_the_mode_is_the_items_or_the_volumes() -> None:
    items = [
        {"path": "a", "mode": 0o400, "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "b", "fieldRef": {"fieldPath": "metadata.name"}},
    ]
    found = downward_files(POD, items, 0o640)
    assert (found["a"].mode, found["b"].mode) == (0o400, 0o640)
