"""What keeps a guest from leaving for another box is told by its name, before anything is made."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.moves.crossing_rules import find_crossing_refusal
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_vm, a_vmi, vmi_with

CAN = {"conditions": [{"type": "StorageLiveMigratable", "status": "True"}]}
HOTPLUGGED = {"name": "data", "persistentVolumeClaim": {"claimName": "db", "hotpluggable": True}}


def leaving(status: dict[str, Any], **spec: Any) -> VirtualMachineInstance:
    """A VM's guest."""
    vmi, made = a_vmi("Running", owner=a_vm()), vmi_with(spec, status)
    vmi.spec, vmi.status = made.spec, made.status
    return vmi


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"domain": {"devices": {"tpm": {"persistent": True}}}},
            "PVC persistent-state-for-web has the state of its TPM or UEFI firmware",
            id="a TPM that lasts",
        ),
        pytest.param({"volumes": [HOTPLUGGED]}, "volume data is hotplugged", id="a hotplugged volume"),
    ],
)
def test_what_does_not_come_along_is_named(spec: dict[str, Any], words: str) -> None:
    assert words in (find_crossing_refusal(leaving(CAN, **spec)) or "")


def test_a_tpm_that_begins_empty_comes_along() -> None:
    assert find_crossing_refusal(leaving(CAN, domain={"devices": {"tpm": {}}})) == ""
