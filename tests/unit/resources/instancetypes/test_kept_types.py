"""Types that are kept with what is kept of a VM: believed as far as they can be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.resources.instancetypes.kept_types import (
    annotation_of,
    identify,
    kept_object,
    without_revision_names,
)
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.types.vm import Matcher

OBJECT: dict[str, Any] = {
    "apiVersion": "instancetype.kubevirt.io/v1beta1",
    "kind": "VirtualMachineClusterInstancetype",
    "metadata": {"name": "small", "uid": "1-2", "generation": 3, "labels": {"a": "b"}},
    "spec": {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}},
}
SMALL = Matcher(name="small")


def kept(**change: Any) -> dict[str, str]:
    return {KEPT_TYPES: annotation_of({"instancetype": {**identify(OBJECT), **change}})}


def test_what_is_kept_comes_back_without_what_is_not_its_own() -> None:
    found = kept_object(kept(), INSTANCETYPE, SMALL)
    assert found == {**identify(OBJECT), "metadata": {"name": "small", "uid": "1-2", "generation": 3}}
    assert kept_object(kept(), PREFERENCE, SMALL) is None
    assert kept_object({}, INSTANCETYPE, SMALL) is None


@pytest.mark.parametrize(
    "annotations",
    [
        {KEPT_TYPES: "no JSON"},
        {KEPT_TYPES: "[]"},
        {KEPT_TYPES: json.dumps({"instancetype": 3})},
        {KEPT_TYPES: "[" * 60_000},
        {KEPT_TYPES: " " * 70_000 + json.dumps({"instancetype": OBJECT})},
        kept(kind="VirtualMachineInstancetype"),
        kept(metadata={"name": "large", "uid": "1-2", "generation": 3}),
        kept(metadata={"name": "small", "uid": "../x", "generation": 3}),
        kept(metadata={"name": "small", "uid": "1-2", "generation": "3"}),
        kept(spec={"cpu": {"guest": "many"}}),
        kept(spec={"cpu": {"guest": 10**6}, "memory": {"guest": "1Gi"}}),
        kept(spec={"cpu": {"guest": 1}, "memory": {"guest": "1Gi", "overcommitPercent": 10**60}}),
    ],
    ids=["text", "list", "number", "depth", "length", "kind", "name", "uid", "generation", "spec", "vCPUs", "percent"],
)
def test_what_cannot_be_used_is_not(annotations: dict[str, str]) -> None:
    assert kept_object(annotations, INSTANCETYPE, SMALL) is None


def test_copies_of_a_vm_are_not_named_in_what_is_kept_of_it() -> None:
    spec = {"instancetype": {"name": "small", "revisionName": "web-small"}, "runStrategy": "Always"}
    assert without_revision_names(spec) == {"instancetype": {"name": "small"}, "runStrategy": "Always"}
