"""Which files a VMI's volumes become."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.disks.disk_plan import ClaimPlan, CloudInitPlan, EmptyDiskPlan, OverlayPlan, plan_volumes
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with, with_volumes

OPTIONS = LauncherOptions(namespace="ns", name="web", uid="u1")


def vmi(*volumes: dict[str, Any], unused: str = "") -> VirtualMachineInstance:
    return vmi_with(with_volumes(*volumes, without_disk=unused), namespace="ns", uid="u1")


def test_a_container_disk_is_found_by_its_place_among_the_volumes() -> None:
    empty = {"name": "a", "emptyDisk": {"capacity": "1Gi"}}
    container = {"name": "root", "containerDisk": {"image": "x", "path": "/disk/y.img"}}
    _, plan = plan_volumes(vmi(empty, container), OPTIONS)
    assert plan == OverlayPlan(
        volume="root",
        field="spec.volumes[1].containerDisk",
        tree="/var/run/kubevirt-image-volume/disk_1",
        inner="/disk/y.img",
        path="/var/run/kubevirt-ephemeral-disks/disk-data/root/disk.qcow2",
    )


@pytest.mark.parametrize(("capacity", "size"), [("2Gi", 2 << 30), ("1500k", 1 << 20), (1048577, 1 << 20)])
def test_an_empty_disk_is_rounded_down_to_whole_mebibytes(capacity: str | int, size: int) -> None:
    (plan,) = plan_volumes(vmi({"name": "a", "emptyDisk": {"capacity": capacity}}), OPTIONS)
    assert plan == EmptyDiskPlan("a", "/var/run/libvirt/empty-disks/a.qcow2", size)


@pytest.mark.parametrize("capacity", ["1k", "0", "-5Gi", "lots"])
def test_a_capacity_that_makes_no_disk_is_refused_with_its_field(capacity: str) -> None:
    with pytest.raises(BadRequest) as caught:
        plan_volumes(vmi({"name": "a", "emptyDisk": {"capacity": capacity}}), OPTIONS)
    assert caught.value.field == "spec.volumes[0].emptyDisk.capacity"


def test_cloud_init_reads_only_the_secrets_that_it_refers_to() -> None:
    source = {"secretRef": {"name": "s"}, "networkData": "version: 2"}
    (plan,) = plan_volumes(vmi({"name": "ci", "cloudInitConfigDrive": source}), OPTIONS)
    assert isinstance(plan, CloudInitPlan)
    assert plan.path == "/var/run/kubevirt-ephemeral-disks/cloud-init-data/ns/web/configdrive.iso"
    assert plan.secrets == ("/var/run/kubevirt-private/secret/ci-udata",)


def test_cloud_init_reads_the_ssh_keys_that_go_its_way() -> None:
    made = vmi({"name": "ci", "cloudInitConfigDrive": {"userData": "a"}})
    for secret, way in (("mine", "configDrive"), ("other", "noCloud"), ("mine", "configDrive")):
        source = {"secret": {"secretName": secret}}
        made.spec.access_credentials.append({"sshPublicKey": {"source": source, "propagationMethod": {way: {}}}})
    (plan,) = plan_volumes(made, OPTIONS)
    assert isinstance(plan, CloudInitPlan)
    assert plan.ssh_keys == ("/var/run/kubevirt-private/secret/mine-access-cred",)


def test_a_volume_that_no_disk_uses_is_left_alone() -> None:
    assert plan_volumes(vmi({"name": "a", "configMap": {"name": "x"}}, unused="a"), OPTIONS) == []


def test_an_unknown_kind_of_volume_is_refused_with_its_place() -> None:
    with pytest.raises(BadRequest) as caught:
        plan_volumes(vmi({"name": "a", "emptyDisk": {"capacity": "1Gi"}}, {"name": "b"}), OPTIONS)
    assert caught.value.field == "spec.volumes[1]"


@pytest.mark.parametrize("name", ["../x", ".hidden", "a/b"])
def test_a_name_that_would_leave_the_directory_is_refused(name: str) -> None:
    with pytest.raises(BadRequest):
        plan_volumes(vmi({"name": name, "emptyDisk": {"capacity": "1Gi"}}), OPTIONS)


def on_claim(**disk: Any) -> VirtualMachineInstance:
    spec = with_volumes({"name": "a", "persistentVolumeClaim": {"claimName": "c"}})
    spec["domain"]["devices"]["disks"] = [{"name": "a", **(disk or {"disk": {}})}]
    info = {"claimName": "c", "requests": {"storage": "1Gi"}}
    entry = {"name": "a", "target": "", "persistentVolumeClaimInfo": info}
    return vmi_with(spec, {"volumeStatus": [entry]}, namespace="ns", uid="u1")


AWAITING = LauncherOptions(namespace="ns", name="web", uid="u1", incoming="m-1")


def test_a_disk_that_comes_with_its_guest_is_as_large_as_the_guest_knows_it() -> None:
    (plan,) = plan_volumes(on_claim(), AWAITING, {"a": 512})
    assert isinstance(plan, ClaimPlan)
    assert (plan.copied, plan.incoming, plan.comes) == (512, "m-1", True)
    (shared,) = plan_volumes(on_claim(), AWAITING, {})
    assert isinstance(shared, ClaimPlan)
    assert (shared.copied, shared.comes) == (0, True)


@pytest.mark.parametrize(
    ("found", "options", "copied"),
    [
        pytest.param(on_claim(), AWAITING, {"a": 100}, id="no whole sectors"),
        pytest.param(on_claim(), AWAITING, {"a": -512}, id="less than nothing"),
        pytest.param(on_claim(), AWAITING, {"b": 512}, id="no such volume"),
        pytest.param(on_claim(), OPTIONS, {"a": 512}, id="no guest comes"),
        pytest.param(on_claim(disk={"readonly": True}), AWAITING, {"a": 512}, id="the guest only reads it"),
        pytest.param(vmi({"name": "a", "emptyDisk": {"capacity": "1Gi"}}), AWAITING, {"a": 512}, id="no claim"),
    ],
)
def test_what_cannot_be_copied_is_refused_with_its_field(
    found: VirtualMachineInstance, options: LauncherOptions, copied: dict[str, int]
) -> None:
    with pytest.raises(BadRequest, match=r"copied_disk_bytes|not copied"):
        plan_volumes(found, options, copied)
