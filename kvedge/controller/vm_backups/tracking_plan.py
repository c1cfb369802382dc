"""Whether backups of a VM may have changed blocks alone: KubeVirt's states, as they are true here.

Called by tracking_loop.py. Pure. A run needs no preparation: QEMU notes changes of any disk from the first backup on.
So there is no state that waits for a restart. A VM whose first run is to come is initializing: tools look for the run
once the VM is enabled.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.snapshots.snapshot_actions import Patch
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

ENABLED: Final = "Enabled"
INITIALIZING: Final = "Initializing"
DISABLED: Final = "Disabled"
GATE_OFF: Final = "IncrementalBackupFeatureGateDisabled"


def choose_state(present: str, *, selected: bool, gate: bool, runs: bool = True) -> str:
    """The state of a VM or a run that says `present`; empty for one that was never selected.

    `runs` says whether there is a run of the VM.
    """
    if selected:
        has_run = runs or present == ENABLED
        return GATE_OFF if not gate else ENABLED if has_run else INITIALIZING
    return DISABLED if present else ""


def write_state(
    item: VirtualMachine | VirtualMachineInstance, *, selected: bool, gate: bool, runs: bool = True
) -> Patch | None:
    """The write that makes the state true; None when it is."""
    told = item.status.changed_block_tracking
    present = "" if told is None else told.state
    wanted = choose_state(present, selected=selected, gate=gate, runs=runs)
    if wanted == present:
        return None
    # A VMI's status is written through the object itself.
    subresource = "status" if isinstance(item, VirtualMachine) else ""
    return Patch(item, {"status": {"changedBlockTracking": {"state": wanted}}}, subresource)
