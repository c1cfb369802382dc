"""Nobody but the controller says what the types of a VM were, by whatever way an annotation comes to a VM."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.role_users import CONTROLLER_GROUP
from tests.support.builders import small_vmi, vm_of
from tests.support.reviews import request

AT = f"metadata.annotations[{KEPT_TYPES}]"
ESCAPED = f"/metadata/annotations/{KEPT_TYPES.replace('/', '~1')}"
VM = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}


def vm(value: str | None = None) -> JsonObject:
    made = copy.deepcopy(vm_of(small_vmi(), runStrategy="Halted"))
    if value is not None:
        made["metadata"]["annotations"] = {KEPT_TYPES: value}
    return made


def fields(document: JsonObject, old: JsonObject | None = None, groups: list[str] | None = None) -> list[str]:
    return [cause.field for cause in plan_verdict(request(document, old, groups=groups), Cluster("amd64")).causes]


def test_a_user_neither_adds_nor_changes_it() -> None:
    assert fields(vm("forged")) == [AT]
    assert fields(vm("forged"), vm()) == [AT]
    assert fields(vm("forged"), vm("kept")) == [AT]
    changed = vm("forged")
    changed["spec"]["runStrategy"] = "Always"
    assert fields(changed, vm("kept")) == [AT]


def test_a_user_may_leave_it_as_it_is_and_take_it_away() -> None:
    assert fields(vm("kept"), vm("kept")) == []
    assert fields(vm(), vm("kept")) == []


def test_the_controller_writes_it() -> None:
    assert fields(vm("kept"), groups=[CONTROLLER_GROUP]) == []
    assert fields(vm("kept"), vm(), groups=[CONTROLLER_GROUP]) == []


def test_a_pool_does_not_have_the_controller_write_it() -> None:
    made = vm("forged")
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels, **made["metadata"]}, "spec": made["spec"]}
    template["metadata"].pop("name", None)
    template["metadata"].pop("namespace", None)
    pool: JsonObject = {
        "apiVersion": "pool.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePool",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "virtualMachineTemplate": template},
    }
    assert fields(pool) == [f"spec.virtualMachineTemplate.{AT}"]


@pytest.mark.parametrize(
    ("operation", "is_refused"),
    [
        ({"op": "add", "path": ESCAPED, "value": "forged"}, True),
        ({"op": "copy", "from": "/metadata/labels/a", "path": ESCAPED}, True),
        ({"op": "replace", "path": "/metadata/annotations", "value": {KEPT_TYPES: "forged"}}, True),
        ({"op": "copy", "from": "/spec/template/metadata/annotations", "path": "/metadata/annotations"}, True),
        ({"op": "replace", "path": "/metadata/annotations", "value": {"a": "b"}}, False),
        ({"op": "add", "path": "/metadata/annotations/a", "value": "b"}, False),
    ],
    ids=["added", "copied", "in all", "all copied", "others in all", "another"],
)
def test_patches_of_restores_and_clones_do_not_write_it(operation: dict[str, Any], is_refused: bool) -> None:
    meta = {"name": "x", "namespace": "default"}
    patches = [json.dumps(operation)]
    restore = {
        "apiVersion": "snapshot.kubevirt.io/v1beta1",
        "kind": "VirtualMachineRestore",
        "metadata": meta,
        "spec": {"target": VM, "virtualMachineSnapshotName": "before", "patches": patches},
    }
    clone = {
        "apiVersion": "clone.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClone",
        "metadata": meta,
        "spec": {"source": VM, "target": {**VM, "name": "twin"}, "patches": patches},
    }
    for document in (restore, clone):
        assert fields(document) == (["spec.patches[0]"] if is_refused else [])
        assert fields(document, groups=[CONTROLLER_GROUP]) == []
