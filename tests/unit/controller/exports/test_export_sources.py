# Tests: kvedge/controller/exports/vm_manifests.py
"""What is exported of a claim, a VM and a snapshot, and what that waits for."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.exports.export_sources import SourceFacts, claims_of, holds_disk, judge_source, writing_pod
from kvedge.resources.codec import decode
from kvedge.resources.data_volume_names import CONTENT_TYPE
from kvedge.resources.disks.snapshot_names import METHOD
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.export_job import ServedBackup
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import VM_UID, a_claim, a_vm, a_vmi, owned_by, small_vmi, vm_of
from tests.support.values import replace


def export(kind: str, name: str) -> VirtualMachineExport:
    spec = {"source": {"kind": kind, "name": name}}
    return decode(VirtualMachineExport, {"metadata": {"name": "e", "namespace": "default"}, "spec": spec})


def the_vm() -> VirtualMachine:
    """A disk of a template, one on a claim of its own, and one that does not last."""
    template = {
        "metadata": {"name": "web-root"},
        "spec": {"sourceRef": {"kind": "DataSource", "name": "debian"}, "storage": {}},
    }
    document = vm_of(small_vmi(), dataVolumeTemplates=[template])
    document["metadata"] = {
        "name": "web",
        "namespace": "default",
        "uid": VM_UID,
        "resourceVersion": "7",
        "finalizers": ["x"],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "restore.kubevirt.io/lastRestoreUID": "r",
            "mine": "yes",
        },
    }
    document["status"] = {"created": True}
    spec = document["spec"]["template"]["spec"]
    spec["volumes"] = [
        {"name": "root", "dataVolume": {"name": "web-root"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}},
        {"name": "tools", "containerDisk": {"image": "demo:1"}},
        {"name": "dump", "memoryDump": {"claimName": "dump", "hotpluggable": True}},
    ]
    spec["domain"]["devices"]["disks"] = [{"name": name, "disk": {}} for name in ("root", "data", "tools")]
    return decode(VirtualMachine, document)


def claims(*names: str, phase: str = "Bound") -> dict[str, PersistentVolumeClaim]:
    return {name: a_claim(name, phase) for name in names}


VM_CLAIMS = claims("web-root", "web-data")


def test_a_claim_at_rest_is_served() -> None:
    seen = judge_source(export("PersistentVolumeClaim", "disk"), SourceFacts(claims=claims("disk")))
    assert (seen.reason, [each.name for each in seen.volumes], seen.manifests) == ("", ["disk"], None)
    assert seen.state is not None
    assert (seen.state.type, seen.state.status, seen.state.reason) == ("PVCReady", "True", "PVCBound")


def filled_half() -> PersistentVolumeClaim:
    claim = a_claim("disk")
    claim.metadata.owner_references = decode(
        PersistentVolumeClaim, {"metadata": {"ownerReferences": [owned_by("DataVolume", "disk", "u")]}}
    ).metadata.owner_references
    return claim


@pytest.mark.parametrize(
    ("facts", "reason", "words"),
    [
        (SourceFacts(), "Initializing", ""),
        (SourceFacts(claims=claims("disk", phase="Pending")), "PVCPending", "default/disk is Pending"),
        (
            SourceFacts(claims={"disk": filled_half()}),
            "PVCPending",
            "PersistentVolumeClaim default/disk is not populated",
        ),
        (
            SourceFacts(claims=claims("disk"), users={"disk": "Pod worker"}),
            "InUse",
            "PersistentVolumeClaim default/disk is in use by Pod worker",
        ),
    ],
)
def test_a_claim_that_cannot_be_served_says_why(facts: SourceFacts, reason: str, words: str) -> None:
    seen = judge_source(export("PersistentVolumeClaim", "disk"), facts)
    assert seen.reason == reason
    assert words in (seen.detail or seen.message)


def test_who_uses_a_claim_is_told_beside_kubevirts_words() -> None:
    seen = judge_source(
        export("PersistentVolumeClaim", "disk"), SourceFacts(claims=claims("disk"), users={"disk": "Pod a"})
    )
    assert seen.message == "PersistentVolumeClaim default/disk is in use"
    assert seen.state is not None
    assert (seen.state.status, seen.state.message) == ("True", f"{seen.message} by Pod a")


def test_a_vm_at_rest_is_served_with_its_manifests() -> None:
    facts = SourceFacts(vm=the_vm(), claims=VM_CLAIMS)
    assert claims_of(export("VirtualMachine", "web"), facts) == ["web-root", "web-data"]
    seen = judge_source(export("VirtualMachine", "web"), facts)
    assert (seen.reason, seen.vm) == ("", "web")
    # A claim without a mark that the guest uses as a disk is one.
    assert [(each.name, each.disk) for each in seen.volumes] == [("web-root", True), ("web-data", True)]
    made = seen.manifests
    assert made is not None
    vm = made.virtual_machine
    assert vm["metadata"] == {"name": "web", "namespace": "default", "annotations": {"mine": "yes"}}
    assert "status" not in vm
    # What is left of its own past means nothing where it comes to.
    assert [each["name"] for each in vm["spec"]["template"]["spec"]["volumes"]] == ["root", "data", "tools"]
    (template,) = vm["spec"]["dataVolumeTemplates"]
    assert template["spec"]["source"] == {"http": {"url": "/volumes/web-root/disk.img.gz"}}
    assert "sourceRef" not in template["spec"]
    (apart,) = made.data_volumes
    assert apart["metadata"] == {"name": "web-data", "namespace": "default"}
    assert apart["spec"] == {
        "source": {"http": {"url": "/volumes/web-data/disk.img.gz"}},
        "storage": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10737418240"}}},
    }


@pytest.mark.parametrize(
    ("facts", "reason", "words"),
    [
        (SourceFacts(), "VMNotFound", "Virtual Machine default/web not found"),
        (
            SourceFacts(vm=the_vm(), claims=claims("web-root")),
            "VolumesNotPopulated",
            "Not all volumes in the Virtual Machine default/web are populated",
        ),
        (
            SourceFacts(vm=the_vm(), vmi=a_vmi("Running"), claims=VM_CLAIMS),
            "InUse",
            "Virtual Machine default/web is running",
        ),
        (
            SourceFacts(vm=the_vm(), claims=VM_CLAIMS, users={"web-data": "VirtualMachineInstance other"}),
            "InUse",
            "default/web-data is in use by VirtualMachineInstance other",
        ),
    ],
)
def test_a_vm_that_cannot_be_served_says_why(facts: SourceFacts, reason: str, words: str) -> None:
    seen = judge_source(export("VirtualMachine", "web"), facts)
    assert (seen.reason, words in (seen.detail or seen.message), seen.is_skipped) == (reason, True, False)


def test_a_run_that_is_over_keeps_nothing() -> None:
    facts = SourceFacts(vm=the_vm(), vmi=a_vmi("Succeeded"), claims=VM_CLAIMS)
    assert judge_source(export("VirtualMachine", "web"), facts).reason == ""


def test_a_vm_without_claims_has_nothing_to_export() -> None:
    vm = a_vm()
    seen = judge_source(export("VirtualMachine", "web"), SourceFacts(vm=vm))
    assert (seen.is_skipped, seen.reason) == (True, "VMNoVolumes")


def a_snapshot(**status: Any) -> VirtualMachineSnapshot:
    spec = {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}}
    return decode(VirtualMachineSnapshot, {"metadata": {"name": "before"}, "spec": spec, "status": status})


def a_content(**names: str) -> VirtualMachineSnapshotContent:
    backups = [
        {
            "volumeName": volume,
            "persistentVolumeClaim": {"metadata": {"name": f"web-{volume}"}},
            "volumeSnapshotName": copy,
        }
        for volume, copy in names.items()
    ]
    vm = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"template": {"spec": the_spec()}}}
    return decode(
        VirtualMachineSnapshotContent,
        {"metadata": {"name": "c"}, "spec": {"source": {"virtualMachine": vm}, "volumeBackups": backups}},
    )


def test_volume_snapshots_of_a_driver_are_not_served_and_the_way_is_told() -> None:
    content = a_content(root="vs-1")
    content.metadata.annotations[METHOD] = "volume-snapshots"
    facts = SourceFacts(snapshot=a_snapshot(readyToUse=True), content=content)
    seen = judge_source(export("VirtualMachineSnapshot", "before"), facts)
    assert (seen.reason, seen.volumes) == ("NotAllPVCsCreated", ())
    assert "restore it to another VM and export that" in seen.message


def the_spec() -> dict[str, Any]:
    return {
        "domain": {"devices": {"disks": [{"name": "root", "disk": {}}]}},
        "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}}],
    }


def test_the_copies_of_a_snapshot_are_served_by_kubevirts_names() -> None:
    facts = SourceFacts(snapshot=a_snapshot(readyToUse=True), content=a_content(root="copy-1"), claims=claims("copy-1"))
    assert claims_of(export("VirtualMachineSnapshot", "before"), facts) == ["copy-1"]
    seen = judge_source(export("VirtualMachineSnapshot", "before"), facts)
    (volume,) = seen.volumes
    assert (volume.name, volume.claim.metadata.name, volume.disk) == ("e-web-root", "copy-1", True)
    assert seen.state is not None
    assert (seen.state.type, seen.state.reason) == ("VolumesCreated", "AllPVCsReady")
    assert seen.manifests is not None
    (made,) = seen.manifests.data_volumes
    # The VM's volume names the claim, not its copy.
    assert made["metadata"]["name"] == "web-root"
    assert made["spec"]["source"]["http"]["url"] == "/volumes/e-web-root/disk.img.gz"


@pytest.mark.parametrize(
    ("facts", "reason", "skipped"),
    [
        (SourceFacts(), "VMSnapshotNotFound", False),
        (SourceFacts(snapshot=a_snapshot()), "NotAllPVCsCreated", False),
        (SourceFacts(snapshot=a_snapshot(readyToUse=True)), "NotAllPVCsCreated", False),
        (SourceFacts(snapshot=a_snapshot(readyToUse=True), content=a_content()), "VMSnapshotNoVolumes", True),
        (SourceFacts(snapshot=a_snapshot(readyToUse=True), content=a_content(root="gone")), "NotAllPVCsReady", False),
    ],
)
def test_a_snapshot_that_cannot_be_served_says_why(facts: SourceFacts, reason: str, skipped: bool) -> None:
    seen = judge_source(export("VirtualMachineSnapshot", "before"), facts)
    assert (seen.reason, seen.is_skipped) == (reason, skipped)


@pytest.mark.parametrize(
    ("annotation", "of_data_volume", "block", "wanted"),
    [
        (None, False, False, False),
        (None, True, False, True),
        ("kubevirt", False, False, True),
        ("", False, False, True),
        ("archive", True, False, False),
        (None, False, True, True),
    ],
)
def test_what_a_claim_holds_is_known_by_its_marks(
    annotation: str | None, of_data_volume: bool, block: bool, wanted: bool
) -> None:
    claim = filled_half() if of_data_volume else a_claim("disk")
    if annotation is not None:
        claim.metadata.annotations = {CONTENT_TYPE: annotation}
    if block:
        claim.spec.volume_mode = "Block"
    assert holds_disk(claim) is wanted


def a_user(name: str, claim: str, phase: str = "Running", *, read_only: bool = False) -> Pod:
    source = {"claimName": claim, "readOnly": read_only}
    spec = {"volumes": [{"name": "v", "persistentVolumeClaim": source}]}
    return decode(Pod, {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}})


def test_who_may_write_a_claim_has_it() -> None:
    assert writing_pod([a_user("b", "disk"), a_user("a", "disk"), a_user("c", "other")], "disk") == "a"
    assert writing_pod([a_user("done", "disk", "Succeeded"), a_user("reader", "disk", read_only=True)], "disk") == ""
    assert writing_pod([a_user("coming", "disk", "Pending")], "disk") == "coming"


def a_backup(reason: str, **spec: Any) -> VirtualMachineBackup:
    document = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"pvcName": "usb", "mode": "Pull", **spec},
        "status": {
            "type": "Incremental",
            "checkpointName": "b-1",
            "includedVolumes": [{"volumeName": "root"}],
            "conditions": [{"type": "Progressing", "status": "True", "reason": reason}],
        },
    }
    return decode(VirtualMachineBackup, document)


def test_of_a_pulled_backup_its_images_are_served_and_nothing_else_of_the_claim() -> None:
    facts = SourceFacts(backup=a_backup("PreparingExport"), backed_up_vm="web")
    asked = export("VirtualMachineBackup", "b")
    assert claims_of(asked, facts) == ["usb"]
    seen = judge_source(asked, replace(facts, claims=claims("usb")))
    (volume,) = seen.volumes
    assert (seen.reason, volume.disk, seen.vm) == ("", False, "web")
    assert volume.backup == ServedBackup(directory="web/b-1", images={"root": "b-root.qcow2"}, incremental=True)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        pytest.param(SourceFacts(), "BackupNotFound", id="no backup"),
        pytest.param(SourceFacts(backup=a_backup("Initiated"), backed_up_vm="web"), "Initializing", id="not whole"),
        pytest.param(
            SourceFacts(backup=a_backup("ExportReady", mode="Push"), backed_up_vm="web"), "Initializing", id="pushed"
        ),
        pytest.param(SourceFacts(backup=a_backup("ExportReady"), backed_up_vm="web"), "BackupNotFound", id="no claim"),
        pytest.param(
            SourceFacts(backup=a_backup("ExportReady"), claims=claims("usb")), "BackupNotFound", id="no tracker"
        ),
        pytest.param(
            SourceFacts(
                backup=a_backup("ExportReady"),
                backed_up_vm="web",
                claims=claims("usb"),
                users={"usb": "VirtualMachineInstance web"},
            ),
            "InUse",
            id="the VM still has the claim",
        ),
    ],
)
def test_a_backup_that_is_not_to_be_pulled_waits(facts: SourceFacts, reason: str) -> None:
    assert judge_source(export("VirtualMachineBackup", "b"), facts).reason == reason
