# Tests: kvedge/resources/disks/state_claims.py, kvedge/controller/vmi/claim_rules.py, kvedge/controller/vmi/vmi_plan.py
"""The claim for what is in a TPM and in UEFI's variables: made once for a VM, and never another VM's."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vmi.claim_rules import ClaimView, conflicts
from kvedge.controller.vmi.launcher_pod.launcher_pod_claims import make_mounted_claims
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import CreateClaim, CreatePod, PatchVmi, VmiPlan, VmiView
from kvedge.controller.vmi.volume_status import with_claims
from kvedge.resources.codec import encode
from kvedge.resources.disks.state_claims import STATE_CLAIM, keeps_state, make_state_claim, state_claim_name
from kvedge.resources.types.devices import Disk
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, NOW, a_claim, a_vm, a_vmi, vmi_with
from tests.support.values import replace

NAME = "persistent-state-for-web"
TPM: dict[str, Any] = {"devices": {"tpm": {"persistent": True}}}
UEFI: dict[str, Any] = {"firmware": {"bootloader": {"efi": {"persistent": True}}}}


def lasting(domain: dict[str, Any] = TPM) -> VirtualMachineInstance:
    vmi = a_vmi("Pending", owner=a_vm())
    vmi.spec = vmi_with({"domain": domain}).spec
    return vmi


def planned(vmi: VirtualMachineInstance, *claims: PersistentVolumeClaim) -> VmiPlan:
    found = ClaimView({claim.metadata.name: claim for claim in claims})
    return plan_vmi(VmiView(vmi, [], claims=found), CONFIG, NOW)


def words(plan: VmiPlan) -> str:
    (action,) = plan.actions
    assert isinstance(action, PatchVmi)
    (found,) = [each for each in action.body["status"]["conditions"] if each["type"] == "Synchronized"]
    assert found["reason"] == "PVCNotOfThisVM"
    return str(found["message"])


@pytest.mark.parametrize("domain", [TPM, UEFI])
def test_it_is_made_before_the_first_launcher_and_belongs_to_the_vm(domain: dict[str, Any]) -> None:
    (action,) = planned(lasting(domain)).actions
    assert isinstance(action, CreateClaim)
    made = encode(action.claim)
    assert made["metadata"]["name"] == NAME
    assert made["metadata"]["labels"] == {"persistent-state-for": "web"}
    assert [(owner["kind"], owner["name"]) for owner in made["metadata"]["ownerReferences"]] == [
        ("VirtualMachine", "web")
    ]
    assert made["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}


def test_the_class_is_that_of_the_configuration() -> None:
    (action,) = plan_vmi(VmiView(lasting(), []), replace(CONFIG, state_storage_class="fast"), NOW).actions
    assert isinstance(action, CreateClaim)
    assert action.claim.spec.storage_class_name == "fast"


def test_a_vmi_without_a_vm_takes_it_along() -> None:
    bare = vmi_with({"domain": TPM}, name="web", uid="u-1")
    (owner,) = make_state_claim(bare, "").metadata.owner_references
    assert (owner.kind, owner.uid) == ("VirtualMachineInstance", "u-1")


def test_once_it_is_there_the_launcher_has_it_and_the_status_shows_it() -> None:
    vmi = lasting()
    claim = make_state_claim(vmi, "")
    assert [type(action) for action in planned(vmi, claim).actions] == [CreatePod]
    ((volume, place),) = make_mounted_claims(vmi, {NAME: claim}, set())
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == NAME
    assert encode(place)["mountPath"] == "/var/run/kubevirt-private/vmi-disks/persistent-state-for-this-vm"
    (entry,) = with_claims(vmi, ClaimView({NAME: claim}))
    assert entry.name == "persistent-state-for-this-vm"


def test_the_claim_of_an_earlier_vm_of_this_name_is_waited_for() -> None:
    vmi, claim = lasting(), make_state_claim(lasting(), "")
    claim.metadata.owner_references[0].uid = "an earlier one"
    assert words(planned(vmi, claim)).endswith(
        "has no ownerReferences and the label persistent-state-for: this VM's name"
    )
    claim.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    assert words(planned(vmi, claim)).endswith("it is being deleted, and the VM starts by itself once it is gone")


def test_somebody_s_claim_of_this_name_is_not_taken() -> None:
    assert words(planned(lasting(), a_claim(NAME))).startswith(f"PVC {NAME} is to keep the state")


def test_one_that_was_left_behind_or_brought_back_is_the_vm_s_of_that_name() -> None:
    vmi, claim = lasting(), a_claim(NAME)
    claim.metadata.labels = {"persistent-state-for": "web"}
    assert [type(action) for action in planned(vmi, claim).actions] == [CreatePod]


def test_the_one_that_a_restore_has_made_is_taken_and_never_made_anew() -> None:
    vmi, name = lasting(), "restore-1-persistent-state-for-this-vm"
    vmi.metadata.annotations[STATE_CLAIM] = name
    claim = a_claim(name)
    # Another VM's, whatever a user lets this one say.
    assert words(planned(vmi, claim)).startswith(f"PVC {name} is to keep the state")
    claim.metadata.labels = {"persistent-state-for": "web"}
    assert [type(action) for action in planned(vmi, claim).actions] == [CreatePod]
    (action,) = planned(vmi, make_state_claim(lasting(), "")).actions
    assert isinstance(action, PatchVmi)
    (told,) = [each for each in action.body["status"]["conditions"] if each["type"] == "Synchronized"]
    assert told["reason"] == "FailedPvcNotFound"
    assert f'set the VM\'s annotation {STATE_CLAIM} to ""' in told["message"]


def test_no_other_vm_has_it_as_a_disk_meanwhile() -> None:
    other = vmi_with({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": NAME}}]}, name="other", uid="o")
    other.spec.domain.devices.disks = [Disk(name="d")]
    assert conflicts(other, lasting(), NAME)
    assert conflicts(lasting(), other, NAME)


@pytest.mark.parametrize(
    "domain",
    [
        {},
        {"devices": {"tpm": {}}},
        {"devices": {"tpm": {"persistent": True, "enabled": False}}},
        {"firmware": {"bootloader": {"efi": {}}}},
    ],
)
def test_nothing_is_made_for_what_does_not_last(domain: dict[str, Any]) -> None:
    assert not keeps_state(lasting(domain).spec)
    assert [type(action) for action in planned(lasting(domain)).actions] == [CreatePod]


def test_long_names_stay_apart() -> None:
    one, other = state_claim_name("a" * 250 + "b"), state_claim_name("a" * 250 + "c")
    assert len(one) == len(other) == 253
    assert one != other
