"""The DataVolumes that a VM brings along."""

from __future__ import annotations

from typing import Any

from kvedge.controller.vm.data_volume_templates import make_wanted_data_volumes
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import ALLOW_ADOPTION
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import a_vm


def vm_with(*templates: dict[str, Any], **metadata: Any) -> VirtualMachine:
    document = encode(a_vm())
    document["metadata"] |= metadata
    document["spec"]["dataVolumeTemplates"] = list(templates)
    return decode(VirtualMachine, document)


TEMPLATE = {"metadata": {"name": "root", "labels": {"a": "b"}}, "spec": {"source": {"blank": {}}}}


def test_a_template_becomes_a_data_volume_of_the_vm() -> None:
    vm = vm_with(TEMPLATE)
    (made,) = make_wanted_data_volumes(vm)
    assert (made.metadata.name, made.metadata.namespace) == ("root", vm.metadata.namespace)
    assert made.metadata.labels == {"a": "b", CREATED_BY: vm.metadata.uid}
    assert made.metadata.annotations[ALLOW_ADOPTION] == "true"
    (owner,) = made.metadata.owner_references
    assert (owner.uid, owner.controller) == (vm.metadata.uid, True)


def test_a_user_may_refuse_the_adoption_of_a_claim() -> None:
    metadata = {"name": "root", "annotations": {ALLOW_ADOPTION: "false"}}
    (made,) = make_wanted_data_volumes(vm_with({**TEMPLATE, "metadata": metadata}))
    assert made.metadata.annotations[ALLOW_ADOPTION] == "false"


def test_a_vm_that_goes_makes_none() -> None:
    assert make_wanted_data_volumes(vm_with(TEMPLATE, deletionTimestamp="2026-01-01T00:00:00Z")) == []
