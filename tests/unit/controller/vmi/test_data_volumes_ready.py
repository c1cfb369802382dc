"""The condition DataVolumesReady of a VMI."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vmi.claim_rules import ClaimView
from kvedge.controller.vmi.data_volumes_ready import data_volumes_ready
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import PatchVmi, VmiView
from kvedge.resources.codec import decode, encode
from kvedge.resources.data_volume_names import POD_PHASE
from kvedge.resources.meta import OwnerReference, condition
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, NOW, a_claim, a_pod, a_vmi, patched, vmi_with, with_volumes

DISK = {"name": "root", "dataVolume": {"name": "web-root"}}
CLAIM = {"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}


def a_vmi_on(*volumes: dict[str, Any], phase: Any = "Pending") -> VirtualMachineInstance:
    vmi = a_vmi(phase)
    vmi.spec = vmi_with(with_volumes(*volumes)).spec
    return vmi


def a_filled_claim(filled: bool = True, phase: str = "Bound") -> PersistentVolumeClaim:
    claim = a_claim(phase=phase)
    owner = OwnerReference(
        api_version="cdi.kubevirt.io/v1beta1", kind="DataVolume", name="web-root", uid="dv", controller=True
    )
    claim.metadata.owner_references = [owner]
    if filled:
        claim.metadata.annotations = {POD_PHASE: "Succeeded"}
    return claim


CASES = {
    "no DataVolume is named": (CLAIM, [a_claim()], None),
    "the claim is not there": (DISK, [], "False"),
    "the claim is filled": (DISK, [a_filled_claim(filled=False)], "False"),
    "the claim is not bound": (DISK, [a_filled_claim(phase="Pending")], "False"),
    "the claim is full": (DISK, [a_filled_claim()], "True"),
    "the claim was somebody else's before": (DISK, [a_claim()], "True"),
    "a DataVolume has the claim that a volume names": (CLAIM, [a_filled_claim(filled=False)], "False"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_condition_tells_whether_all_data_volumes_are_full(case: str) -> None:
    volume, claims, status = CASES[case]
    found = data_volumes_ready(a_vmi_on(volume), {claim.metadata.name: claim for claim in claims})
    assert (None if found is None else found.status) == status


def test_the_condition_follows_its_claims_also_while_the_guest_runs() -> None:
    vmi = a_vmi_on(DISK, phase="Running")
    pod = a_pod(vmi, "Running", "node-1")
    view = VmiView(vmi, [pod], claims=ClaimView({"web-root": a_filled_claim()}))
    document = encode(vmi)
    for action in plan_vmi(view, CONFIG, NOW).actions:
        if isinstance(action, PatchVmi):
            document = patched(document, action.body)
    told = condition(decode(VirtualMachineInstance, document).status.conditions, "DataVolumesReady")
    assert told is not None
    assert (told.status, told.reason, told.message) == (
        "True",
        "AllDVsReady",
        "All of the VMI's DVs are bound and ready",
    )
