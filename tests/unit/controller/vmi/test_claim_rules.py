# Tests: kvedge/controller/vmi/claim_rules.py, kvedge/controller/vmi/launcher_pod_claims.py
"""What keeps a VMI from its claims, and that it starts once the cause is mended."""

from __future__ import annotations

from typing import Any

from kvedge.controller.vmi.claim_rules import ClaimView
from kvedge.controller.vmi.vmi_plan import CreatePod, PatchVmi, VmiPlan, VmiView, plan_vmi
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import OwnerReference, condition
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, NOW, a_claim, a_pod, a_vmi, patched, vmi_with, with_volumes

ROOT = {"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}


def a_vmi_on(*volumes: dict[str, Any], phase: str = "Pending") -> VirtualMachineInstance:
    vmi = a_vmi(phase)  # type: ignore[arg-type]
    vmi.spec = vmi_with(with_volumes(*volumes)).spec
    return vmi


def planned(vmi: VirtualMachineInstance, *claims: PersistentVolumeClaim, **view: Any) -> VmiPlan:
    found = ClaimView({claim.metadata.name: claim for claim in claims})
    return plan_vmi(VmiView(vmi, view.pop("pods", []), claims=found, **view), CONFIG, NOW)


def after(vmi: VirtualMachineInstance, plan: VmiPlan) -> VirtualMachineInstance:
    document = encode(vmi)
    for action in plan.actions:
        if isinstance(action, PatchVmi):
            document = patched(document, action.body)
    return decode(VirtualMachineInstance, document)


def said(vmi: VirtualMachineInstance, type_: str = "Synchronized") -> tuple[str, str]:
    found = condition(vmi.status.conditions, type_)
    return ("", "") if found is None else (found.reason, found.message)


def test_a_vmi_whose_claim_is_missing_says_so_in_both_conditions_and_gets_no_pod() -> None:
    vmi = a_vmi_on(ROOT)
    plan = planned(vmi)
    changed = after(vmi, plan)
    assert not any(isinstance(action, CreatePod) for action in plan.actions)
    assert said(changed, "PodScheduled") == ("Unschedulable", "didn't find PVC web-root")
    assert said(changed) == (
        "FailedPvcNotFound",
        "PVC default/web-root does not exist, waiting for it to appear; volume root needs it: create it, and the VM"
        " starts by itself",
    )
    assert plan.warning is not None
    assert plan.warning.message == "PVC default/web-root does not exist, waiting for it to appear"


def test_a_wait_that_has_been_told_is_not_written_again() -> None:
    vmi = a_vmi_on(ROOT)
    assert planned(after(vmi, planned(vmi))).actions == ()


def test_a_vmi_starts_by_itself_once_its_claim_is_there_and_forgets_what_it_waited_for() -> None:
    waiting = after(a_vmi_on(ROOT), planned(a_vmi_on(ROOT)))
    plan = planned(waiting, a_claim())
    assert [type(action) for action in plan.actions] == [CreatePod]
    started = after(waiting, planned(waiting, a_claim(), pods=[a_pod(waiting)]))
    assert (started.status.phase, said(started), said(started, "PodScheduled")) == ("Scheduling", ("", ""), ("", ""))


def test_a_claim_that_waits_for_its_first_consumer_gets_it() -> None:
    plan = planned(a_vmi_on(ROOT), a_claim(phase="Pending"))
    assert [type(action) for action in plan.actions] == [CreatePod]


def test_a_claim_that_has_lost_its_volume_is_told_with_the_remedy() -> None:
    vmi = a_vmi_on(ROOT)
    reason, message = said(after(vmi, planned(vmi, a_claim(phase="Lost", volume_name="pv-7"))))
    assert reason == "PVCLost"
    assert message.startswith("PVC web-root of volume root is Lost: its volume pv-7 is gone")
    assert "restore the PersistentVolume" in message


def test_a_claim_that_its_datavolume_still_fills_is_waited_for() -> None:
    vmi, claim = a_vmi_on(ROOT), a_claim()
    owner = OwnerReference(api_version="cdi.kubevirt.io/v1beta1", kind="DataVolume", name="d", uid="u", controller=True)
    claim.metadata.owner_references = [owner]
    assert said(after(vmi, planned(vmi, claim)))[0] == "PVCNotPopulated"
    claim.metadata.annotations = {"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}
    assert [type(action) for action in planned(vmi, claim).actions] == [CreatePod]


def test_a_lun_on_a_file_system_is_told_before_anything_starts() -> None:
    vmi = a_vmi_on(ROOT)
    vmi.spec.domain.devices.disks = vmi_with(
        {"domain": {"devices": {"disks": [{"name": "root", "lun": {}}]}}}
    ).spec.domain.devices.disks
    reason, message = said(after(vmi, planned(vmi, a_claim())))
    assert reason == "PVCWrongMode"
    assert message.startswith("device root is of type lun. Not compatible with a file based disk")
    assert [type(action) for action in planned(vmi, a_claim(volume_mode="Block")).actions] == [CreatePod]


def test_a_claim_that_comes_while_the_guest_runs_is_no_reason_to_wait() -> None:
    later = {"name": "later", "persistentVolumeClaim": {"claimName": "later", "hotpluggable": True}}
    assert [type(action) for action in planned(a_vmi_on(later)).actions] == [CreatePod]


def test_a_volume_with_the_name_of_one_of_the_launchers_own_is_mounted_beside_it() -> None:
    volume = {"name": "private", "persistentVolumeClaim": {"claimName": "web-root"}}
    (action,) = planned(a_vmi_on(volume), a_claim()).actions
    assert isinstance(action, CreatePod)
    names = [volume.name for volume in action.pod.spec.volumes]
    assert len(names) == len(set(names))
    mount = next(item for item in action.pod.spec.containers[0].volume_mounts if item.name == "private-claim")
    assert mount.mount_path == "/var/run/kubevirt-private/vmi-disks/private"
