"""What a VM may write as the name of its types: a name that an object can have, told with its field."""

from __future__ import annotations

import pytest

from kvedge.api.admission.instancetypes.matcher_rules import matchers_are_complete
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vm import Matcher, VirtualMachine, VirtualMachineSpec

ELSEWHERE = "../../../kubevirt.io/v1/namespaces/victim/virtualmachines/db"


def fields(instancetype: Matcher | None = None, preference: Matcher | None = None) -> list[str]:
    spec = VirtualMachineSpec(instancetype=instancetype, preference=preference)
    vm = VirtualMachine(metadata=ObjectMeta(name="vm", namespace="mine"), spec=spec)
    return [cause.field for cause in matchers_are_complete(vm)]


@pytest.mark.parametrize("name", [ELSEWHERE, "..", "A", "a/b", "a b", "a%2fb", "a" * 254, "a\n"])
def test_what_no_object_can_be_called_is_refused_with_its_field(name: str) -> None:
    assert fields(Matcher(name=name)) == ["spec.instancetype.name"]
    assert fields(None, Matcher(name=name)) == ["spec.preference.name"]
    assert fields(Matcher(name="a", revision_name=name)) == ["spec.instancetype.revisionName"]
    assert fields(None, Matcher(name="a", revision_name=name)) == ["spec.preference.revisionName"]


def test_names_of_types_and_of_their_copies_are_fine() -> None:
    copy = "web-u1.small-v1beta1-5d1e6c4e-8f6b-4d0e-9d6a-0c5b9f1f7a11-1"
    assert fields(Matcher(name="u1.small", revision_name=copy), Matcher(name="rhel.9")) == []
    assert fields(Matcher(infer_from_volume="disk")) == []
