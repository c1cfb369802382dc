"""What is made of a file: names, sizes and classes of disks, and the VM that names them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvedge.client.errors import UsageError
from kvedge.client.vm_files.archive_errors import DamagedFile
from kvedge.client.vm_files.archive_manifest import ArchiveManifest, DiskEntry
from kvedge.client.vm_files.imported_vm import ImportPlan, ImportWish, PlannedDisk, plan_import
from tests.unit.client.vm_files.archives import VM, manifest_of

MIB = 1 << 20


def plan(manifest: ArchiveManifest, **wish: Any) -> ImportPlan:
    return plan_import(manifest, ImportWish(**wish), [0] * len(manifest.disks))


def test_sizes_are_whole_megabytes_and_hold_an_image_that_is_converted_there() -> None:
    made = plan_import(manifest_of(MIB + 1, 512), ImportWish(), [0, 5 * MIB])
    assert made.disks == [
        PlannedDisk("web-root", "root", 2 * MIB, "", True),
        PlannedDisk("data", "data", 5 * MIB, "", False),
    ]


def test_the_manifest_is_left_as_it_is() -> None:
    manifest, before = manifest_of(512, 512), copy.deepcopy(VM)
    plan(manifest, name="other", new_macs=True)
    assert manifest.vm == before


def test_templates_of_other_claims_stay() -> None:
    manifest = ArchiveManifest(vm=copy.deepcopy(VM), disks=manifest_of(512, 512).disks)
    manifest.vm["spec"]["dataVolumeTemplates"].append({"metadata": {"name": "spare"}, "spec": {}})
    assert plan(manifest).vm["spec"]["dataVolumeTemplates"] == [{"metadata": {"name": "spare"}, "spec": {}}]


@pytest.mark.parametrize(
    ("spec", "start", "strategy", "is_told"),
    [
        ({"runStrategy": "Always"}, False, "Halted", False),
        ({"runStrategy": "Always"}, True, "Always", False),
        ({"runStrategy": "RerunOnFailure"}, False, "Halted", True),
        ({"runStrategy": "RerunOnFailure"}, True, "RerunOnFailure", False),
        ({"runStrategy": "Manual"}, False, "Manual", False),
        ({"runStrategy": "Halted"}, True, "Always", False),
        ({"running": True}, True, "Always", False),
        ({"running": False}, False, "Halted", False),
    ],
)
def test_it_runs_only_when_it_is_to_start(spec: Any, start: bool, strategy: str, is_told: bool) -> None:
    vm = {**VM, "spec": {"template": VM["spec"]["template"], **spec}}
    manifest = ArchiveManifest(vm=vm, disks=manifest_of(512, 512).disks)
    made = plan(manifest, start=start)
    assert made.vm["spec"]["runStrategy"] == strategy
    assert "running" not in made.vm["spec"]
    assert bool(made.notes) is is_told


@pytest.mark.parametrize(
    ("vm", "says"),
    [
        pytest.param({}, "lacks 'kind'", id="empty"),
        pytest.param({**VM, "kind": "Pod"}, "of another kind", id="pod"),
        pytest.param({**VM, "spec": {"template": {"spec": []}}}, "of another kind", id="no-template"),
        pytest.param({**VM, "spec": {"template": {"spec": {"volumes": {}}}}}, "volumes is no list", id="volumes"),
        pytest.param(
            {**VM, "spec": {"template": {"spec": {"volumes": [{"secret": "text"}]}}}}, "not as a server", id="source"
        ),
    ],
)
def test_a_vm_that_is_none_is_refused(vm: Any, says: str) -> None:
    with pytest.raises(DamagedFile, match=says):
        plan(ArchiveManifest(vm=vm))


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "Secret"},
    ],
)
def test_an_object_that_belongs_to_no_vm_is_refused(document: Any) -> None:
    with pytest.raises(DamagedFile, match="belongs to no VM"):
        plan(ArchiveManifest(vm=VM, objects=[document]))


def test_a_secret_that_a_server_would_fill_with_a_token_is_refused() -> None:
    metadata = {"name": "x", "annotations": {"kubernetes.io/service-account.name": "admin"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": metadata}
    with pytest.raises(DamagedFile, match="token of a service account"):
        plan(ArchiveManifest(vm=VM, objects=[secret]))


def test_what_its_guest_gets_to_know_of_this_place_is_told() -> None:
    vm = copy.deepcopy(VM)
    vm["spec"]["template"]["spec"]["volumes"] += [
        {"name": "a", "secret": {"secretName": "of-the-file"}},
        {"name": "b", "secret": {"secretName": "of-this-place"}},
        {"name": "c", "serviceAccount": {"serviceAccountName": "admin"}},
        {"name": "d", "ephemeral": {"persistentVolumeClaim": {"claimName": "golden"}}},
        {"name": "e", "hostDisk": {"path": "/etc/shadow", "type": "Disk"}},
    ]
    vm["spec"]["dataVolumeTemplates"].append({"metadata": {"name": "spare"}, "spec": {"source": {"pvc": {}}}})
    vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"] = [{"name": "x", "deviceName": "nvidia.com/T4"}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "of-the-file"}, "data": {}}
    made = plan(ArchiveManifest(vm=vm, objects=[secret], disks=manifest_of(512, 512).disks))
    assert made.notes == [
        "its guest gets what is in the Secret of-this-place here, which is not in the file",
        "its guest gets a token of the service account admin here",
        "its guest reads the claim golden here",
        "its guest gets the file /etc/shadow of its node",
        "its disk spare is not in the file, and is made here",
        "its guest gets a device nvidia.com/T4 of its node",
    ]


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "spy", "persistentVolumeClaim": {"claimName": "database"}},
        {"name": "spy", "dataVolume": {"name": "database"}},
    ],
)
def test_a_claim_that_another_vm_may_have_here_is_refused(volume: Any) -> None:
    vm = copy.deepcopy(VM)
    vm["spec"]["template"]["spec"]["volumes"].append(volume)
    with pytest.raises(DamagedFile, match="no disk of volume 'spy', which would be the claim 'database'"):
        plan(ArchiveManifest(vm=vm, disks=manifest_of(512, 512).disks))


def test_an_object_that_its_vm_does_not_name_is_refused() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "metadata": {"name": "x"}}
    with pytest.raises(DamagedFile, match="the Secret 'x', which its VM does not name"):
        plan(ArchiveManifest(vm=VM, objects=[secret], disks=manifest_of(512, 512).disks))


def test_other_programs_notes_do_not_come_along() -> None:
    vm = copy.deepcopy(VM)
    vm["metadata"]["annotations"] = {"restore.kubevirt.io/name": "x", "site": "north"}
    made = plan(ArchiveManifest(vm=vm, disks=manifest_of(512, 512).disks))
    assert made.vm["metadata"]["annotations"] == {"site": "north"}


def test_an_objects_place_is_that_of_the_vm() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "kube-system"}, "data": {}}
    vm = copy.deepcopy(VM)
    vm["spec"]["template"]["spec"]["volumes"].append({"name": "keys", "secret": {"secretName": "x"}})
    (found,) = plan(ArchiveManifest(vm=vm, objects=[secret], disks=manifest_of(512, 512).disks)).objects
    assert found["metadata"] == {"name": "x"}


@pytest.mark.parametrize("name", ["../other", "a/b", ""])
def test_a_name_that_would_mean_another_path_is_refused(name: str) -> None:
    manifest = ArchiveManifest(vm={**VM, "metadata": {"name": name}})
    with pytest.raises(UsageError):
        plan(manifest)
    disks = [DiskEntry(volume="root", claim=name or "/", size=512)]
    with pytest.raises(UsageError):
        plan(ArchiveManifest(vm=VM, disks=disks))


def test_a_disk_without_a_volume_is_refused() -> None:
    disks = [DiskEntry(volume="spare", claim="spare", size=512)]
    with pytest.raises(DamagedFile, match="no volume for: 'spare'"):
        plan(ArchiveManifest(vm=VM, disks=disks))


def test_two_disks_of_one_name_are_refused() -> None:
    disks = [DiskEntry(volume="root", claim="one", size=512), DiskEntry(volume="data", claim="one", size=512)]
    with pytest.raises(UsageError, match="would have one name"):
        plan(ArchiveManifest(vm=VM, disks=disks))
