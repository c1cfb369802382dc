# Tests: kvedge/controller/vmi/claim_rules.py, kvedge/controller/vmi/launcher_pod/launcher_pod_claims.py
"""What keeps a VMI from its claims, and that it starts once the cause is mended."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vmi.claim_rules import IN_USE_SECONDS, ClaimView, conflicts
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import CreatePod, PatchVmi, VmiPlan, VmiView
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
    # In KubeVirt's words, which its tests compare.
    words = "PVC default/web-root does not exist, waiting for it to appear"
    assert said(changed, "PodScheduled") == ("Unschedulable", words)
    remedy = "; volume root needs it: create it, and the VM starts by itself"
    assert said(changed) == ("FailedPvcNotFound", words + remedy)
    assert plan.warning is not None
    assert plan.warning.message == words


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


def of_a_data_volume(**spec: Any) -> PersistentVolumeClaim:
    claim = a_claim(**spec)
    owner = OwnerReference(api_version="cdi.kubevirt.io/v1beta1", kind="DataVolume", name="d", uid="u", controller=True)
    claim.metadata.owner_references = [owner]
    return claim


def test_a_claim_that_its_datavolume_still_fills_is_waited_for_with_the_worker_s_words() -> None:
    vmi, claim = a_vmi_on(ROOT), of_a_data_volume()
    plan = planned(vmi, claim)
    assert said(after(vmi, plan))[0] == "PVCNotPopulated"
    # All goes as it should: nobody is warned.
    assert plan.warning is None
    claim.metadata.annotations = {
        "cdi.kubevirt.io/storage.condition.running": "false",
        "cdi.kubevirt.io/storage.condition.running.message": "404 for http://images/x",
    }
    plan = planned(vmi, claim)
    words = "starts by itself when it is full: 404 for http://images/x"
    assert said(after(vmi, plan))[1].endswith(words)
    assert plan.warning is not None
    assert plan.warning.message.endswith(words)


def test_nobody_is_warned_of_a_worker_whose_scheduler_tries_again_by_itself() -> None:
    vmi, claim = a_vmi_on(ROOT), of_a_data_volume()
    claim.metadata.annotations = {
        "cdi.kubevirt.io/storage.condition.running": "false",
        "cdi.kubevirt.io/storage.condition.running.reason": "SchedulerError",
        "cdi.kubevirt.io/storage.condition.running.message": "the object has been modified",
    }
    plan = planned(vmi, claim)
    assert said(after(vmi, plan))[1].endswith("when it is full: the object has been modified")
    assert plan.warning is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cdi.kubevirt.io/storage.pod.phase", "Succeeded"),
        ("cdi.kubevirt.io/clonePhase", "Succeeded"),
        ("k8s.io/CloneOf", "true"),
    ],
)
def test_a_claim_that_its_datavolume_has_filled_is_used(key: str, value: str) -> None:
    claim = of_a_data_volume()
    claim.metadata.annotations = {key: value}
    assert [type(action) for action in planned(a_vmi_on(ROOT), claim).actions] == [CreatePod]


def test_a_claim_that_cdi_fills_elsewhere_waits_for_its_first_consumer() -> None:
    source = {"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "s"}
    claim = of_a_data_volume(phase="Pending", data_source_ref=source)
    assert [type(action) for action in planned(a_vmi_on(ROOT), claim).actions] == [CreatePod]


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


def test_a_claim_that_another_vm_writes_is_waited_for_by_name() -> None:
    vmi, other = a_vmi_on(ROOT), a_vmi_on(ROOT)
    other.metadata.name, other.status.node_name = "first", "node-7"
    seen = ClaimView({"web-root": a_claim()}, {"web-root": other})
    plan = plan_vmi(VmiView(vmi, [], claims=seen), CONFIG, NOW)
    reason, message = said(after(vmi, plan))
    assert reason == "PVCInUse"
    assert message.startswith("PVC web-root of volume root is in use by VM first on node node-7")
    assert plan.again_after == IN_USE_SECONDS


@pytest.mark.parametrize(
    ("ours", "theirs", "conflict"),
    [
        ({"disk": {}}, {"disk": {}}, True),
        ({"disk": {"readonly": True}}, {"disk": {}}, True),
        ({"disk": {"readonly": True}}, {"disk": {"readonly": True}}, False),
        ({"cdrom": {}}, {"cdrom": {}}, False),
        ({"disk": {}, "shareable": True}, {"disk": {}, "shareable": True}, False),
        ({"disk": {}, "shareable": True}, {"disk": {}}, True),
    ],
    ids=["two writers", "a reader beside a writer", "two readers", "two CD-ROMs", "both share", "one shares"],
)
def test_who_may_have_one_claim_at_the_same_time(ours: Any, theirs: Any, conflict: bool) -> None:
    def using(disk: dict[str, Any]) -> VirtualMachineInstance:
        return vmi_with({"domain": {"devices": {"disks": [{"name": "root", **disk}]}}, "volumes": [ROOT]})

    assert conflicts(using(ours), using(theirs), "web-root") is conflict
    assert not conflicts(using(ours), using(theirs), "another")


def test_nobody_is_warned_of_a_claim_that_is_bound_in_a_moment() -> None:
    vmi, pending = a_vmi_on(ROOT, phase="Scheduling"), a_claim(phase="Pending", storage_class_name="local-path")
    pending.metadata.annotations = {"volume.kubernetes.io/storage-provisioner": "rancher.io/local-path"}
    assert planned(vmi, pending, pods=[a_pod(vmi)]).warning is None
    lasting = a_claim(phase="Pending", storage_class_name="")
    warning = planned(vmi, lasting, pods=[a_pod(vmi)]).warning
    assert warning is not None
    assert warning.reason == "PVCNotBound"


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (
            {"storage_class_name": "local-path", "volume_mode": "Block"},
            "storage class local-path (local-path) cannot provide volumeMode Block; make the claim anew",
        ),
        (
            {"storage_class_name": "local-path", "access_modes": ["ReadWriteMany"]},
            "cannot provide ReadWriteMany",
        ),
        ({"storage_class_name": "local-path"}, "is not bound yet; the VM starts by itself once it is"),
        ({}, "no storage class is the default one"),
        ({"storage_class_name": ""}, "is bound to a PersistentVolume that somebody makes"),
    ],
    ids=["block on local-path", "shared on local-path", "local-path at work", "no class", "no provisioning"],
)
def test_a_claim_that_is_not_bound_is_told_with_what_can_be_done(claim: Any, words: str) -> None:
    vmi, pending = a_vmi_on(ROOT, phase="Scheduling"), a_claim(phase="Pending", **claim)
    if claim.get("storage_class_name"):
        pending.metadata.annotations = {"volume.kubernetes.io/storage-provisioner": "rancher.io/local-path"}
    changed = after(vmi, planned(vmi, pending, pods=[a_pod(vmi)]))
    assert said(changed)[0] == "PVCNotBound"
    assert words in said(changed)[1]
    bound = after(changed, planned(changed, a_claim(), pods=[a_pod(vmi, node="node-1")]))
    assert said(bound) == ("", "")


def test_a_volume_with_the_name_of_one_of_the_launchers_own_is_mounted_beside_it() -> None:
    volume = {"name": "private", "persistentVolumeClaim": {"claimName": "web-root"}}
    (action,) = planned(a_vmi_on(volume), a_claim()).actions
    assert isinstance(action, CreatePod)
    names = [volume.name for volume in action.pod.spec.volumes]
    assert len(names) == len(set(names))
    mount = next(item for item in action.pod.spec.containers[0].volume_mounts if item.name == "private-vmi")
    assert mount.mount_path == "/var/run/kubevirt-private/vmi-disks/private"


def a_vmi_sharing(claim: str, *, read_only: bool = False) -> VirtualMachineInstance:
    source = {"claimName": claim, "readOnly": read_only}
    spec = with_volumes({"name": "data", "persistentVolumeClaim": source}, without_disk="data")
    spec["domain"]["devices"]["filesystems"] = [{"name": "data", "virtiofs": {}}]
    vmi = a_vmi("Pending")
    vmi.spec = vmi_with(spec).spec
    return vmi


def test_a_directory_is_on_a_claim_with_a_file_system() -> None:
    vmi = a_vmi_sharing("data")
    plan = planned(vmi, a_claim("data", volume_mode="Block"))
    assert not any(isinstance(action, CreatePod) for action in plan.actions)
    reason, message = said(after(vmi, plan))
    assert reason == "PVCWrongMode"
    assert message.startswith("filesystem data is a directory, and PVC data has volumeMode Block; use a claim with")
    assert [type(action) for action in planned(vmi, a_claim("data")).actions] == [CreatePod]


def test_a_directory_is_several_guests_and_the_image_of_a_disk_in_it_is_no_other_guests() -> None:
    disk = a_vmi_on({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    assert not conflicts(a_vmi_sharing("data"), a_vmi_sharing("data"), "data")
    assert conflicts(a_vmi_sharing("data"), disk, "data")
    assert conflicts(disk, a_vmi_sharing("data"), "data")
    assert conflicts(disk, a_vmi_sharing("data", read_only=True), "data")
