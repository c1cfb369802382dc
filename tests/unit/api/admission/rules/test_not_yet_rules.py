"""What KubeVirt has and kvedge has not: each row of the table refuses, with its path and a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.rules.causes import Field
from kvedge.api.admission.rules.not_yet_rules import VMI_NOT_YET, NotYet, not_yet
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec

TABLE = (NotYet("domain.later"), NotYet("volumes[].later"))


def asking_for(entry: NotYet) -> JsonObject:
    value: Any = {"some": "thing"}
    for name in reversed(entry.path.split(".")):
        value = {name.removesuffix("[]"): [value] if name.endswith("[]") else value}
    return value


@pytest.mark.parametrize("entry", VMI_NOT_YET, ids=lambda entry: entry.path)
def test_each_row_for_vmis_refuses_with_its_path(entry: NotYet) -> None:
    found = list(not_yet(VMI_NOT_YET, asking_for(entry), Field("spec.template.spec")))
    path = "spec.template.spec." + entry.path.replace("[]", "[0]")
    assert [cause.field for cause in found] == [path]
    assert found[0].message == f"{path}: not supported by kvedge 0.1; {entry.remedy}"


@pytest.mark.parametrize("entry", VMI_NOT_YET, ids=lambda entry: entry.path)
def test_each_row_names_a_field_that_exists(entry: NotYet) -> None:
    path = "spec." + entry.path.replace("[]", "[0]")
    unknown = [cause.field for cause in unknown_fields(VirtualMachineInstanceSpec, asking_for(entry), Field("spec"))]
    # What is put into the field here may be unknown; the field itself is not.
    assert unknown in ([], [f"{path}.some"])


@pytest.mark.parametrize("value", [None, False, [], "", 0])
def test_what_is_off_is_not_asked_for(value: Any) -> None:
    assert list(not_yet(TABLE, {"domain": {"later": value}}, Field("spec"))) == []


def test_an_empty_object_asks_for_it() -> None:
    assert len(list(not_yet(TABLE, {"domain": {"later": {}}}, Field("spec")))) == 1


@pytest.mark.parametrize("document", [{"domain": None}, {"volumes": {"a": 1}}, {"volumes": [3, None]}, {"domain": []}])
def test_a_document_of_another_shape_is_no_crash(document: JsonObject) -> None:
    assert list(not_yet((*VMI_NOT_YET, *TABLE), document, Field("spec"))) == []
