"""What the plan of a VM's backup looks at.

Made by vm_backup_loop.py, judged by `vm_backup_plan`. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

FINALIZER = "backup.kubevirt.io/vmbackup-protection"


class VmBackupView(Struct, frozen=True):
    """All that counts for one backup; what is not there is None."""

    backup: VirtualMachineBackup
    tracker: VirtualMachineBackupTracker | None = None
    vm: VirtualMachine | None = None
    vmi: VirtualMachineInstance | None = None
    claim: PersistentVolumeClaim | None = None
    export: VirtualMachineExport | None = None
    # Another backup of the same VM that goes first.
    rival: str = ""
    # The checkpoints of all trackers of the VM.
    checkpoints: tuple[str, ...] = ()
    # Why the server did not take what was to be made.
    refusal: str = ""

    @property
    def vm_name(self) -> str:
        """The VM, as far as that is known."""
        source = self.backup.spec.source
        if not self.backup.by_tracker:
            return source.name
        return "" if self.tracker is None else self.tracker.spec.source.name
