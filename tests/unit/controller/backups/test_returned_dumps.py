# Tests: kvedge/controller/backups/returned_vm.py
"""A VM that had its memory dumped when it was backed up."""

from __future__ import annotations

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
