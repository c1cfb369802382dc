"""Volumes for dumps of a guest's memory: of VMs alone, one at most, and no disks."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.rules.causes import Field
from kvedge.api.admission.rules.storage.volume_rules import (
    claims_are_named,
    memory_dumps_are_no_disks,
    volumes_have_one_name_and_source,
)
from kvedge.api.admission.rules.subject import Subject
from kvedge.resources.codec import decode
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec

DUMP = {"name": "dumps", "memoryDump": {"claimName": "dumps", "hotpluggable": True}}


def subject(*volumes: dict[str, Any], at: str = "spec.template.spec", **devices: Any) -> Subject:
    spec = decode(VirtualMachineInstanceSpec, {"domain": {"devices": devices}, "volumes": list(volumes)})
    return Subject(spec, ObjectMeta(), Field(at), Field("metadata"))


def test_a_vm_has_a_claim_for_dumps() -> None:
    assert list(memory_dumps_are_no_disks(subject(DUMP))) == []
    assert list(claims_are_named(subject(DUMP))) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            subject(DUMP, {**DUMP, "name": "more"}),
            "spec.template.spec.volumes must have max one memory dump volume set",
        ),
        (subject(DUMP, disks=[{"name": "dumps", "disk": {}}]), "is a memory dump and no disk: remove disk 'dumps'"),
        (subject(DUMP, at="spec"), "spec.volumes[0]: a guest's memory is dumped while it runs"),
    ],
    ids=["two", "a disk", "a run"],
)
def test_what_is_no_claim_for_dumps_is_refused(given: Subject, words: str) -> None:
    (cause,) = memory_dumps_are_no_disks(given)
    assert words in cause.message


def test_a_claim_for_dumps_has_a_name() -> None:
    (cause,) = claims_are_named(subject({"name": "dumps", "memoryDump": {"claimName": ""}}))
    assert cause.message == "spec.template.spec.volumes[0].memoryDump.claimName is a required field"


@pytest.mark.parametrize("name", ["persistent-state-for-this-vm", "saved-memory-of-this-vm"])
def test_a_name_that_launchers_and_snapshots_give_to_volumes_of_their_own_is_refused(name: str) -> None:
    """A snapshot would hold the state of the TPM in place of such a disk, and call itself complete."""
    given = subject({"name": name, "persistentVolumeClaim": {"claimName": "data"}})
    (cause,) = volumes_have_one_name_and_source(given)
    assert cause.field == "spec.template.spec.volumes[0].name"
    assert "use another name" in cause.message
