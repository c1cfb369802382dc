"""Claims for disks that move along, the change of the VM that names them, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode, encode
from kvedge.resources.moves.disk_moves import (
    DiskMove,
    NoMove,
    can_move_with_disks,
    has_pending_exchange,
    leaves_with_disks,
    moved_name,
    plan_disk_move,
    stable_name,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

ROOT = {"name": "root", "dataVolume": {"name": "web-root"}}
DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
SHARED = {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}
SEED = {"name": "seed", "cloudInitNoCloud": {"userData": "#"}}
VOLUMES = [SEED, ROOT, SHARED, DATA]
BY_DISKS = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
ALONG = {"type": "StorageLiveMigratable", "status": "True"}
MODES = {"root": "ReadWriteOnce", "data": "ReadWriteOnce", "shared": "ReadWriteMany"}
OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": "vm-1", "controller": True}


def a_vm(volumes: Any = VOLUMES, **metadata: Any) -> VirtualMachine:
    templates = [{"metadata": {"name": name}, "spec": {}} for name in ("other", "web-root")]
    spec = {"template": {"spec": {"volumes": volumes}}, "dataVolumeTemplates": templates}
    known = {"name": "web", "namespace": "default", "uid": "vm-1", "resourceVersion": "7"}
    return decode(VirtualMachine, {"metadata": known | metadata, "spec": spec})


def a_run(volumes: Any = VOLUMES, disks: Any = None, conditions: Any = (BY_DISKS, ALONG), **status: Any) -> Any:
    kinds = {"seed": {"disk": {}}, "root": {"disk": {}}, "data": {"disk": {}}, "shared": {"disk": {}}} | (disks or {})
    named = [{"name": volume["name"], **kinds.get(volume["name"], {})} for volume in volumes]
    seen = [
        {"name": name, "target": "", "persistentVolumeClaimInfo": {"claimName": name, "accessModes": [mode]}}
        for name, mode in MODES.items()
    ]
    known = {"phase": "Running", "nodeName": "node-1", "conditions": list(conditions), "volumeStatus": seen}
    metadata = {"name": "web", "namespace": "default", "uid": "run-1", "ownerReferences": [OWNER]}
    spec = {"volumes": volumes, "domain": {"devices": {"disks": [each for each in named if len(each) > 1]}}}
    return decode(VirtualMachineInstance, {"metadata": metadata, "spec": spec, "status": known | status})


def a_claim(name: str, *owners: Any, **spec: Any) -> PersistentVolumeClaim:
    known = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }
    metadata = {"name": name, "namespace": "default", "ownerReferences": list(owners)}
    status = {"capacity": {"storage": "2Gi"}, "phase": "Bound"}
    return decode(PersistentVolumeClaim, {"metadata": metadata, "spec": known | spec, "status": status})


OF_TEMPLATE = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "web-root", "uid": "dv-1"}
CLAIMS = {
    "web-root": a_claim("web-root", {**OF_TEMPLATE, "controller": True}),
    "data": a_claim("data", volumeMode="Block"),
    "shared": a_claim("shared", accessModes=["ReadWriteMany"]),
}


def planned(vm: Any = None, vmi: Any = None, claims: Any = None) -> DiskMove | NoMove:
    known = CLAIMS if claims is None else claims
    return plan_disk_move(vm or a_vm(), vmi or a_run(), known, lambda old: moved_name(old, "abcde"))


def test_each_claim_that_one_node_has_at_a_time_gets_one_as_itself() -> None:
    plan = planned()
    assert isinstance(plan, DiskMove)
    assert [(each.volume, each.old, each.data_volume) for each in plan.exchanges] == [
        ("root", "web-root", "web-root"),
        ("data", "data", ""),
    ]
    root, data = (encode(each.claim) for each in plan.exchanges)
    assert root["metadata"]["name"] == "web-root-moved-abcde"
    assert root["metadata"]["annotations"] == {"kvedge.io/moved-from": "web-root"}
    # It goes with the VM, as the one of the template does; the other is its user's own.
    (owner,) = root["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner.get("controller")) == ("VirtualMachine", "vm-1", None)
    assert "ownerReferences" not in data["metadata"]
    assert root["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "fast",
    }
    assert data["spec"]["volumeMode"] == "Block"


def test_the_vm_is_changed_at_the_version_that_was_read_and_nothing_is_imported_again() -> None:
    plan = planned()
    assert isinstance(plan, DiskMove)

    def source(name: str, claim: str) -> dict[str, Any]:
        return {"name": name, "persistentVolumeClaim": {"claimName": claim}}

    at = "/spec/template/spec/volumes"
    assert list(plan.ops) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec/updateVolumesStrategy", "value": "Migration"},
        {"op": "replace", "path": f"{at}/1", "value": source("root", "web-root-moved-abcde")},
        {"op": "replace", "path": f"{at}/3", "value": source("data", "data-moved-abcde")},
        {"op": "remove", "path": "/spec/dataVolumeTemplates/1"},
    ]


def test_a_claim_that_has_moved_once_stays_the_vms_and_its_name_does_not_grow() -> None:
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "web-root-moved-bbbbb"}}
    moved = a_claim("web-root-moved-bbbbb", {**OWNER, "controller": None})
    plan = planned(a_vm([volume]), a_run([volume]), {"web-root-moved-bbbbb": moved})
    assert isinstance(plan, DiskMove)
    (each,) = plan.exchanges
    assert each.claim.metadata.name == "web-root-moved-abcde"
    assert each.claim.metadata.owner_references[0].uid == "vm-1"


@pytest.mark.parametrize(
    ("vm", "vmi", "words"),
    [
        pytest.param(None, a_run(phase="Scheduled"), "disks move while the guest runs", id="does not run"),
        pytest.param(
            a_vm(ownerReferences=[{**OWNER, "kind": "VirtualMachinePool", "name": "pool"}]),
            None,
            "belongs to VirtualMachinePool pool",
            id="of a pool",
        ),
        pytest.param(a_vm([SEED, ROOT, SHARED]), a_run([SEED, SHARED]), "no claim of the VM keeps it", id="all shared"),
        pytest.param(
            a_vm([{**DATA, "persistentVolumeClaim": {"claimName": "new"}}]), None, "a change is under way", id="pending"
        ),
        pytest.param(None, a_run(conditions=[BY_DISKS]), "has no condition StorageLiveMigratable", id="old handler"),
        pytest.param(
            None,
            a_run(conditions=[BY_DISKS, {**ALONG, "status": "False", "message": "a host device"}]),
            "a host device",
            id="something else",
        ),
        pytest.param(None, a_run(disks={"data": {"lun": {}}}), "volume data is a LUN", id="LUN"),
        pytest.param(None, a_run(disks={"data": {"cdrom": {}}}), "volume data is a CD-ROM", id="CD-ROM"),
        pytest.param(
            None, a_run(disks={"data": {"disk": {}, "shareable": True}}), "volume data is shareable", id="shareable"
        ),
        pytest.param(
            None, a_run(disks={"data": {"disk": {"readonly": True}}}), "volume data is read-only", id="read-only"
        ),
        pytest.param(None, a_run(disks={"data": {}}), "volume data is no disk", id="file system"),
    ],
)
def test_what_cannot_move_is_refused_by_name(vm: Any, vmi: Any, words: str) -> None:
    plan = planned(vm, vmi)
    assert isinstance(plan, NoMove)
    assert words in plan.reason


@pytest.mark.parametrize("busy", ["snapshot_in_progress", "restore_in_progress"])
def test_a_vm_of_which_a_snapshot_is_taken_keeps_its_claims_until_that_has_ended(busy: str) -> None:
    vm = a_vm()
    setattr(vm.status, busy, "daily-1")
    plan = planned(vm)
    assert isinstance(plan, NoMove)
    assert plan.reason.startswith("daily-1 is being taken")


def test_a_hotplugged_disk_and_a_claim_that_is_gone_are_refused() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "hotpluggable": True}}
    hotplugged = planned(a_vm([volume]), a_run([volume]))
    assert isinstance(hotplugged, NoMove)
    assert "volume data is hotplugged" in hotplugged.reason
    assert planned(claims={"web-root": CLAIMS["web-root"]}) == NoMove("claim data was not found")


def test_disks_alone_keep_a_guest_that_could_move_with_them() -> None:
    assert can_move_with_disks(a_run())
    assert not can_move_with_disks(a_run(conditions=[BY_DISKS]))
    assert not can_move_with_disks(a_run(conditions=[ALONG, {**BY_DISKS, "reason": "HostDeviceNotLiveMigratable"}]))
    assert not can_move_with_disks(a_run(conditions=[ALONG, {"type": "LiveMigratable", "status": "True"}]))
    assert not can_move_with_disks(a_run(conditions=[BY_DISKS, ALONG, {"type": "VolumesChange", "status": "True"}]))
    alone = a_run()
    alone.metadata.owner_references = []
    assert not can_move_with_disks(alone)


@pytest.mark.parametrize(
    ("volume", "disk", "words"),
    [
        pytest.param(DATA, {"lun": {}}, "volume data is a LUN", id="LUN"),
        pytest.param(
            {"name": "data", "hostDisk": {"path": "/d.img", "type": "Disk"}}, {"disk": {}}, "hostDisk", id="hostDisk"
        ),
        pytest.param(
            {"name": "data", "ephemeral": {"persistentVolumeClaim": {"claimName": "data"}}},
            {"disk": {}},
            "volume data is a layer",
            id="ephemeral",
        ),
    ],
)
def test_a_disk_that_cannot_move_keeps_its_guest_and_is_named(volume: Any, disk: Any, words: str) -> None:
    volumes = [ROOT, volume]
    vmi = a_run(volumes, {"data": disk})
    assert not can_move_with_disks(vmi)
    plan = planned(a_vm(volumes), vmi)
    assert isinstance(plan, NoMove)
    assert words in plan.reason


def test_what_may_be_shut_down_leaves_with_its_disks_only_when_that_is_asked_for() -> None:
    vmi = a_run()
    assert leaves_with_disks(vmi, "LiveMigrate")
    assert not any(leaves_with_disks(vmi, strategy) for strategy in ("LiveMigrateIfPossible", "None", "External"))
    vmi.metadata.annotations["kvedge.io/evacuate-with-disks"] = "true"
    assert leaves_with_disks(vmi, "LiveMigrateIfPossible")
    assert not any(leaves_with_disks(vmi, strategy) for strategy in ("None", "External"))


def test_an_exchange_is_pending_while_the_vm_names_another_claim_or_the_run_says_so() -> None:
    assert not has_pending_exchange(a_vm(), a_run())
    assert has_pending_exchange(a_vm([{**DATA, "persistentVolumeClaim": {"claimName": "new"}}]), a_run())
    assert has_pending_exchange(a_vm(), a_run(migratedVolumes=[{"volumeName": "data"}]))
    # A volume that only the run has, or only the VM, is no exchange.
    assert not has_pending_exchange(a_vm([ROOT]), a_run())


def test_a_second_try_comes_to_the_same_name_until_the_guest_has_moved() -> None:
    assert stable_name(a_run(), "data") == stable_name(a_run(), "data")
    names = {stable_name(a_run(), "data"), stable_name(a_run(), "root"), stable_name(a_run(nodeName="node-2"), "data")}
    assert len(names) == 3


def test_a_name_stays_a_name() -> None:
    assert moved_name("x" * 253, "abcde") == f"{'x' * 200}-moved-abcde"
    assert moved_name("a" * 199 + ".b", "abcde") == f"{'a' * 199}-moved-abcde"
