"""The copies that VMs keep of their types, and what a VM's status says of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvedge.resources.codec import encode
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE, UnknownKind
from kvedge.resources.instancetypes.revisions import (
    BadRevision,
    is_current,
    is_of,
    named_revision,
    object_in,
    revision_of,
    spec_of,
    sync_ref,
)
from kvedge.resources.meta import OwnerReference
from kvedge.resources.types.vm import ControllerRevisionRef, InstancetypeStatusRef, Matcher

OWNER = OwnerReference(api_version="kubevirt.io/v1", kind="VirtualMachine", name="vm", uid="u")
SPEC = {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}


def document(version: str = "v1beta1", kind: str = "VirtualMachineClusterInstancetype") -> dict[str, Any]:
    metadata = {
        "name": "small",
        "uid": "1-2",
        "generation": 3,
        "labels": {"a": "b"},
        "annotations": {"a": "b"},
        "managedFields": [{}],
        "resourceVersion": "7",
    }
    return {
        "apiVersion": f"instancetype.kubevirt.io/{version}",
        "kind": kind,
        "metadata": metadata,
        "spec": SPEC,
    }


def test_a_copy_has_kubevirts_name_labels_and_content() -> None:
    made = revision_of("vm", "ns", OWNER, document())
    assert made.metadata.name == "vm-small-v1beta1-1-2-3"
    assert made.metadata.labels == {
        "instancetype.kubevirt.io/object-generation": "3",
        "instancetype.kubevirt.io/object-kind": "VirtualMachineClusterInstancetype",
        "instancetype.kubevirt.io/object-name": "small",
        "instancetype.kubevirt.io/object-uid": "1-2",
        "instancetype.kubevirt.io/object-version": "v1beta1",
    }
    assert made.metadata.owner_references == [OWNER]
    assert encode(made)["data"] == {
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": {"name": "small", "uid": "1-2", "generation": 3},
        "spec": SPEC,
    }
    assert spec_of(INSTANCETYPE, object_in(INSTANCETYPE, made)) == SPEC
    assert is_current(made)


def test_a_copy_has_nothing_that_is_not_of_a_type() -> None:
    made = revision_of("vm", "ns", OWNER, {**document(), "status": {"secret": "s"}, "data": {"secret": "s"}})
    assert made.data == revision_of("vm", "ns", OWNER, document()).data
    with pytest.raises(BadRevision, match=r"no instance type and no preference: VirtualMachine$"):
        revision_of("vm", "ns", OWNER, document(kind="VirtualMachine"))


def test_a_copy_is_of_what_a_vm_names_now() -> None:
    made = revision_of("vm", "ns", OWNER, document())
    assert is_of(made, INSTANCETYPE, Matcher(name="small"))
    assert is_of(made, INSTANCETYPE, Matcher(name="small", kind="virtualmachineclusterinstancetypes"))
    assert not is_of(made, INSTANCETYPE, Matcher(name="large"))
    assert not is_of(made, INSTANCETYPE, Matcher(name="small", kind="VirtualMachineInstancetype"))
    assert not is_of(made, INSTANCETYPE, Matcher(name="small", kind="Pod"))


def test_a_copy_of_a_version_before_is_read_and_made_anew() -> None:
    old = msgspec.structs.replace(revision_of("vm", "ns", OWNER, document()), data=document("v1alpha2"))
    old.metadata.labels["instancetype.kubevirt.io/object-version"] = "v1alpha2"
    assert not is_current(old)
    found = object_in(INSTANCETYPE, old)
    assert revision_of("vm", "ns", OWNER, found).data["apiVersion"] == "instancetype.kubevirt.io/v1beta1"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"spec": {}}, "ControllerRevision .* holds no instance type: None None"),
        (document(kind="VirtualMachinePreference"), "VirtualMachinePreference"),
        (document("v2"), "instancetype.kubevirt.io/v2"),
    ],
    ids=["a VM's start", "the other one", "a version to come"],
)
def test_a_copy_of_something_else_is_none(data: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRevision, match=words):
        object_in(INSTANCETYPE, msgspec.structs.replace(revision_of("vm", "ns", OWNER, document()), data=data))


def test_a_spec_of_another_shape_is_told_with_its_field() -> None:
    with pytest.raises(BadRevision, match=r"small: spec\.cpu\.guest: Expected `int`"):
        spec_of(INSTANCETYPE, {**document(), "spec": {**SPEC, "cpu": {"guest": "many"}}})


KNOWN = InstancetypeStatusRef(name="small", controller_revision_ref=ControllerRevisionRef(name="copy"))


@pytest.mark.parametrize(
    ("matcher", "name", "copy"),
    [
        (Matcher(name="small"), "small", "copy"),
        (Matcher(name="large"), "large", None),
        (Matcher(name="small", kind="VirtualMachineInstancetype"), "small", None),
        (Matcher(name="small", revision_name="mine"), "small", "mine"),
        (Matcher(name="large", revision_name="mine"), "large", "mine"),
    ],
    ids=["as before", "another name", "another kind", "a copy of one's own", "another name and copy"],
)
def test_a_status_follows_the_spec(matcher: Matcher, name: str, copy: str | None) -> None:
    found = sync_ref(matcher, KNOWN)
    assert found.name == name
    assert (found.controller_revision_ref.name if found.controller_revision_ref else None) == copy


def test_the_first_status_waits_for_a_copy() -> None:
    assert sync_ref(Matcher(name="small"), None) == InstancetypeStatusRef(name="small")
    assert named_revision(Matcher(name="small"), None) == ""
    assert named_revision(Matcher(name="small"), KNOWN) == "copy"
    assert named_revision(Matcher(name="small", revision_name="mine"), KNOWN) == "mine"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("", "VirtualMachineClusterPreference"),
        ("virtualMachinePreference", "VirtualMachinePreference"),
        ("virtualmachinepreferences", "VirtualMachinePreference"),
        ("VirtualMachineClusterPreferences", "VirtualMachineClusterPreference"),
    ],
)
def test_a_matchers_kind_is_read_in_any_case_and_number(kind: str, wanted: str) -> None:
    assert PREFERENCE.kind_of(Matcher(name="a", kind=kind)).kind == wanted


def test_another_kind_is_none() -> None:
    with pytest.raises(UnknownKind, match="got unexpected kind in InstancetypeMatcher: VirtualMachinePreference"):
        INSTANCETYPE.kind_of(Matcher(name="a", kind="VirtualMachinePreference"))
