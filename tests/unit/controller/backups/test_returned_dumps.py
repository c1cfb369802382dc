# Tests: kvedge/controller/backups/returned_vm.py, kvedge/controller/backups/tpm_twins.py
"""A VM that had its memory dumped when it was backed up, and one that keeps its TPM."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvedge.controller.backups.tpm_twins import find_twin
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.claim_places import STATE_VOLUME as STATE
from kvedge.resources.disks.state_claims import STATE_CLAIM
from kvedge.resources.types.protection.backup_job import BackupOutcome, BackupRecord
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.vm import VirtualMachine
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


def vm_named(namespace: str, name: str, *, tpm: bool = True) -> VirtualMachine:
    document: Any = encode(the_vm())
    document["metadata"] |= {"namespace": namespace, "name": name}
    if tpm:
        document["spec"]["template"]["spec"]["domain"].setdefault("devices", {})["tpm"] = {"persistent": True}
    return decode(VirtualMachine, document)


def other_restore(*, phase: str = "Succeeded", state: bool = True, **spec: Any) -> BackupRestore:
    volumes = [{"volumeName": STATE if state else "root", "claimName": "c"}]
    document = {
        "metadata": {"name": "other", "namespace": "default", "uid": "another"},
        "spec": {"vmName": "web", "repositoryName": "usb", **spec},
        "status": {"phase": phase, "volumes": volumes},
    }
    return decode(BackupRestore, document)


@pytest.mark.parametrize(
    ("spec", "others", "vms", "twin"),
    [
        ({"targetName": "web2"}, [], [vm_named("default", "web")], "default/web"),
        ({"targetName": "web2"}, [], [vm_named("default", "web", tpm=False)], ""),
        ({"targetName": "web2"}, [], [], ""),
        ({}, [], [vm_named("default", "web")], ""),
        ({"vmNamespace": "shop"}, [], [vm_named("shop", "web")], "shop/web"),
        ({}, [other_restore(targetName="web3")], [vm_named("default", "web3")], "default/web3"),
        ({}, [other_restore(targetName="web3")], [], ""),
        ({}, [other_restore(targetName="web3", phase="Restoring")], [], "default/web3"),
        ({}, [other_restore(targetName="web3", state=False)], [vm_named("default", "web3")], ""),
        ({}, [other_restore(targetName="web3", isolated=True)], [vm_named("default", "web3")], ""),
        ({}, [other_restore(vmName="mail", targetName="web3")], [vm_named("default", "web3")], ""),
    ],
    ids=[
        "the VM itself", "it has no TPM any more", "it is gone", "it is what is restored", "in another namespace",
        "restored before", "restored before and gone", "being restored", "restored before without its TPM",
        "being tested", "another VM's backup",
    ],
)  # fmt: skip
def test_who_has_the_tpm(
    spec: dict[str, Any], others: list[BackupRestore], vms: list[VirtualMachine], twin: str
) -> None:
    world = restore(**spec)
    assert world.restore is not None
    there = {(vm.metadata.namespace, vm.metadata.name): vm for vm in vms}
    assert find_twin(world.restore, [world.restore, *others], lambda *name: there.get(name)) == twin
