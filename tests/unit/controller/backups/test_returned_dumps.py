# Tests: kvedge/controller/backups/returned_vm.py, kvedge/controller/backups/tpm_twins.py
"""A VM that had its memory dumped when it was backed up, and one that keeps its TPM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kvedge.controller.backups import restore_loop
from kvedge.controller.backups.restore_loop import RestoreLoop
from kvedge.controller.backups.tpm_twins import find_twin
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.claim_places import STATE_VOLUME as STATE
from kvedge.resources.disks.snapshot_names import RETURNED_BY
from kvedge.resources.disks.state_claims import STATE_CLAIM, TPM_ORIGIN
from kvedge.resources.types.protection.backup_job import BackupOutcome, BackupRecord
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.saved_memory import RESUME_MEMORY
from tests.support.builders import CONFIG
from tests.unit.controller.backups.backup_world import World, a_record, the_vm


def test_the_claim_of_memory_dumps_stays_the_old_vm_s() -> None:
    world = World()
    world.vm = None
    world.ask_restore()
    world.settle("restore")
    record = a_record()
    volumes = record.content["source"]["virtualMachine"]["spec"]["template"]["spec"]["volumes"]
    volumes.append({"name": "dumps", "memoryDump": {"claimName": "dumps", "hotpluggable": True}})
    world.record = record
    world.settle("restore")
    world.record = None
    world.end("restore", BackupOutcome())
    world.settle("restore")
    assert world.vm is not None
    assert world.vm.spec.template is not None
    assert [each.name for each in world.vm.spec.template.spec.volumes] == ["root", "data", "tools"]


def record_with_tpm() -> BackupRecord:
    record = a_record()
    backup = record.content["volumeBackups"][0]
    record.content["volumeBackups"].append({**backup, "volumeName": STATE, "volumeSnapshotName": "copy-of-state"})
    vm = record.content["source"]["virtualMachine"]
    vm["metadata"]["annotations"] = {STATE_CLAIM: "of another cluster"}
    vm["spec"]["template"]["spec"]["domain"].setdefault("devices", {})["tpm"] = {"persistent": True}
    record.volumes.append(msgspec.structs.replace(record.volumes[0], name=STATE, size=1 << 20))
    return record


def restore(**spec: Any) -> World:
    world = World()
    world.vm = None
    world.ask_restore(**spec)
    return world


def bring_back(world: World) -> World:
    world.settle("restore")
    world.record = record_with_tpm()
    world.settle("restore")
    world.record = None
    world.end("restore", BackupOutcome())
    world.settle("restore")
    return world


def test_the_state_of_a_tpm_comes_back_with_the_vm() -> None:
    world = bring_back(restore())
    assert world.vm is not None
    claim = world.vm.metadata.annotations[STATE_CLAIM]
    assert world.claims[claim].metadata.labels == {"persistent-state-for": "web"}
    assert claim.endswith(STATE)
    assert world.told[-1].reason == "BackupRestored"


def test_a_vm_does_not_go_on_from_memory_that_it_was_to_resume_when_it_was_backed_up() -> None:
    world = restore()
    world.settle("restore")
    record = a_record()
    noted = {RESUME_MEMORY: "memory 0123456789abcdef", "site": "north"}
    record.content["source"]["virtualMachine"]["metadata"]["annotations"] = noted
    world.record = record
    world.settle("restore")
    world.record = None
    world.end("restore", BackupOutcome())
    world.settle("restore")
    assert world.vm is not None
    assert set(world.vm.metadata.annotations) == {"site", RETURNED_BY}


def test_no_twin_of_a_tpm_is_made_beside_the_vm_that_has_it() -> None:
    world = restore(targetName="web2")
    world.twin = "default/web"
    bring_back(world)
    assert world.vm is not None
    assert STATE_CLAIM not in world.vm.metadata.annotations
    assert len(world.claims) == 2
    told = next(each for each in world.told if each.reason == "StateLeftOut")
    assert "VM default/web has this TPM" in told.message
    assert "recovery key" in told.message
    assert world.restore is not None
    assert "new TPM" in world.restore.status.message


def test_the_vm_that_tests_a_backup_has_its_tpm_until_it_goes() -> None:
    world = restore(targetName="web-test", isolated=True)
    world.twin = "default/web"
    bring_back(world)
    assert len(world.claims) == 3


def vm_named(namespace: str, name: str, *, uid: str = "", origin: str = "", tpm: bool = True) -> VirtualMachine:
    document: Any = encode(the_vm())
    document["metadata"] |= {"namespace": namespace, "name": name, "uid": uid or f"uid-of-{name}"}
    document["metadata"]["annotations"] = {TPM_ORIGIN: origin} if origin else {}
    if tpm:
        document["spec"]["template"]["spec"]["domain"].setdefault("devices", {})["tpm"] = {"persistent": True}
    return decode(VirtualMachine, document)


def returned(name: str, namespace: str = "default") -> VirtualMachine:
    """A VM that a backup has brought its TPM to."""
    return vm_named(namespace, name, origin="uid-of-web")


def other_restore(
    *, phase: str = "Restoring", state: bool = True, of: str = "uid-of-web", namespace: str = "default", **spec: Any
) -> BackupRestore:
    volumes = [{"volumeName": STATE if state else "root", "claimName": "c"}]
    content = {"source": {"virtualMachine": {"metadata": {"uid": of}}}}
    document = {
        "metadata": {"name": "other", "namespace": namespace, "uid": "another"},
        "spec": {"vmName": "web", "repositoryName": "usb", **spec},
        "status": {"phase": phase, "volumes": volumes, "content": content},
    }
    return decode(BackupRestore, document)


@pytest.mark.parametrize(
    ("spec", "others", "vms", "twin"),
    [
        ({"targetName": "web2"}, [], [vm_named("default", "web")], "default/web"),
        ({"targetName": "web2"}, [], [vm_named("default", "web", tpm=False)], ""),
        ({"targetName": "web2"}, [], [vm_named("default", "web", uid="made anew")], ""),
        ({"targetName": "web2"}, [], [], ""),
        ({}, [], [vm_named("default", "web")], ""),
        ({"vmNamespace": "shop"}, [], [vm_named("shop", "web")], "shop/web"),
        ({"targetName": "web4"}, [], [returned("web3")], "default/web3"),
        ({}, [], [returned("web3")], "default/web3"),
        ({}, [other_restore(targetName="web3", phase="Succeeded")], [vm_named("default", "web3")], ""),
        ({}, [other_restore(targetName="web2", phase="Failed")], [vm_named("default", "web2")], ""),
        ({}, [other_restore(targetName="web3")], [], "default/web3"),
        ({}, [other_restore(targetName="web3", of="uid of another box's")], [], ""),
        ({}, [other_restore(targetName="web3", state=False)], [], ""),
        ({}, [other_restore(targetName="web3", isolated=True)], [], ""),
        ({}, [other_restore(namespace="shop", vmNamespace="default")], [], ""),
        ({"targetName": "web2"}, [other_restore(namespace="shop", vmNamespace="default")], [], "shop/web"),
        ({}, [], [returned("web", "shop")], "shop/web"),
    ],
    ids=[
        "the VM itself", "it has no TPM any more", "another VM has its name", "it is gone", "it is what is restored",
        "in another namespace", "restored before, by a restore that is deleted", "the same for its own name",
        "what was restored was replaced", "a restore that failed, and a VM of the user's", "being restored",
        "another repository's backup is being restored", "being restored without its TPM", "being tested",
        "elsewhere a restore does not end", "the same for another name", "restored elsewhere",
    ],
)  # fmt: skip
def test_who_has_the_tpm(
    spec: dict[str, Any], others: list[BackupRestore], vms: list[VirtualMachine], twin: str
) -> None:
    world = restore(**spec)
    assert world.restore is not None
    assert find_twin(world.restore, record_with_tpm().content, [world.restore, *others], vms) == twin


def test_a_vm_that_has_come_back_says_whose_tpm_it_has_and_its_own_backups_do_so_too() -> None:
    world = bring_back(restore(targetName="web3"))
    assert world.vm is not None
    assert world.vm.metadata.annotations[TPM_ORIGIN] == "uid-of-web"
    record = record_with_tpm()
    record.content["source"]["virtualMachine"]["metadata"] = encode(world.vm.metadata)
    again = restore(targetName="web4")
    assert again.restore is not None
    assert find_twin(again.restore, record.content, [], [vm_named("default", "web")]) == "default/web"


def test_a_vm_that_comes_back_with_a_new_tpm_says_nothing_of_the_old_one() -> None:
    world = restore(targetName="web4")
    world.twin = "default/web3"
    world.settle("restore")
    record = record_with_tpm()
    record.content["source"]["virtualMachine"]["metadata"]["annotations"][TPM_ORIGIN] = "uid-of-web"
    world.record = record
    world.settle("restore")
    world.record = None
    world.end("restore", BackupOutcome())
    world.settle("restore")
    assert world.vm is not None
    assert TPM_ORIGIN not in world.vm.metadata.annotations


def test_a_live_restore_does_not_start_a_vm_without_its_tpm() -> None:
    world = restore(targetName="web2", live=True)
    world.twin = "default/web"
    world.settle("restore")
    record = record_with_tpm()
    kept = [each for each in record.content["volumeBackups"] if each["volumeName"] in ("root", STATE)]
    record.content["volumeBackups"] = kept
    record.volumes = [each for each in record.volumes if each.name in ("root", STATE)]
    guest = record.content["source"]["virtualMachine"]["spec"]["template"]["spec"]
    guest["domain"]["devices"]["disks"] = [{"name": "root", "disk": {"bus": "virtio"}}]
    world.record = record
    world.settle("restore")
    assert world.restore is not None
    assert world.restore.status.phase == "Failed"
    assert "restore it without spec.live" in world.restore.status.message


def test_the_loop_asks_for_twins_among_the_vms_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    world = restore(targetName="web2")
    there = [vm_named("default", "web")]
    monkeypatch.setattr(restore_loop, "read_result", lambda *_: record_with_tpm())
    for name in ("find_worker", "find_stranger", "ask_worker", "find_exclusive"):
        monkeypatch.setattr(restore_loop, name, lambda *_: None)
    nobody: Any = SimpleNamespace(get=lambda *_: None)
    loop: Any = RestoreLoop.__new__(RestoreLoop)
    vms = SimpleNamespace(get=lambda *_: None, list=lambda: there)
    loop._sources = SimpleNamespace(repositories=nobody, vms=vms, claims=nobody, cluster=lambda: CONFIG)
    loop._restores, loop._refusals = SimpleNamespace(list=lambda: [world.restore]), {}
    assert loop._view(world.restore).twin == "default/web"
