# Tests: kvedge/controller/backups/returned_vm.py
"""A VM that had its memory dumped when it was backed up, and one that keeps its TPM."""

from __future__ import annotations

import msgspec

from kvedge.resources.disks.state_claims import STATE_CLAIM
from kvedge.resources.types.protection.backup_job import BackupOutcome
from tests.unit.controller.backups.backup_world import World, a_record


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


def test_the_state_of_a_tpm_comes_back_with_the_vm() -> None:
    world = World()
    world.vm = None
    world.ask_restore()
    world.settle("restore")
    record = a_record()
    state = "persistent-state-for-this-vm"
    backup = record.content["volumeBackups"][0]
    record.content["volumeBackups"].append({**backup, "volumeName": state, "volumeSnapshotName": "copy-of-state"})
    record.content["source"]["virtualMachine"]["metadata"]["annotations"] = {STATE_CLAIM: "of another cluster"}
    record.volumes.append(msgspec.structs.replace(record.volumes[0], name=state, size=1 << 20))
    world.record = record
    world.settle("restore")
    world.record = None
    world.end("restore", BackupOutcome())
    world.settle("restore")
    assert world.vm is not None
    claim = world.vm.metadata.annotations[STATE_CLAIM]
    assert world.claims[claim].metadata.labels == {"persistent-state-for": "web"}
    assert claim.endswith(state)
