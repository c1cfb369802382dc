"""Whether backups may have changed blocks alone, as VMs and their runs say it."""

from __future__ import annotations

import pytest

from kvedge.controller.vm_backups.tracking_plan import choose_state, write_state
from kvedge.resources.types.vm import VmBlockTracking
from kvedge.resources.types.vmi import BackupStatus, ChangedBlockTracking
from tests.support.builders import a_vm, a_vmi


@pytest.mark.parametrize(
    ("present", "selected", "gate", "state"),
    [
        ("", False, True, ""),
        ("", True, True, "Enabled"),
        ("", True, False, "IncrementalBackupFeatureGateDisabled"),
        ("Enabled", False, True, "Disabled"),
        ("Disabled", True, True, "Enabled"),
        ("Enabled", True, False, "IncrementalBackupFeatureGateDisabled"),
    ],
)
def test_the_state_follows_labels_and_gate(present: str, selected: bool, gate: bool, state: str) -> None:
    assert choose_state(present, selected=selected, gate=gate) == state


@pytest.mark.parametrize(
    ("present", "state"), [("", "Initializing"), ("Disabled", "Initializing"), ("Enabled", "Enabled")]
)
def test_a_vm_whose_first_run_is_to_come_is_initializing(present: str, state: str) -> None:
    assert choose_state(present, selected=True, gate=True, runs=False) == state
    assert choose_state(state, selected=True, gate=True) == "Enabled"
    assert choose_state(present, selected=False, gate=True, runs=False) == ("" if not present else "Disabled")


def test_a_state_is_written_once_and_leaves_what_is_said_of_backups() -> None:
    vm, vmi = a_vm(), a_vmi()
    written = write_state(vm, selected=True, gate=True)
    assert written is not None
    assert written.subresource == "status"
    vm.status.changed_block_tracking = VmBlockTracking(state="Enabled")
    assert write_state(vm, selected=True, gate=True) is None
    vmi.status.changed_block_tracking = ChangedBlockTracking(backup_status=BackupStatus(backup_name="b"))
    written = write_state(vmi, selected=True, gate=True)
    assert written is not None
    assert (written.subresource, written.body) == ("", {"status": {"changedBlockTracking": {"state": "Enabled"}}})
