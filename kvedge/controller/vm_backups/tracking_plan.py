"""Whether backups of a VM may have changed blocks alone: KubeVirt's states, as they are true here.

Called by tracking_loop.py. Pure. A run needs no preparation: QEMU notes changes of any disk from the first backup on.
So there is no state between, and none that waits for a restart.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.snapshots.snapshot_actions import Patch
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

ENABLED: Final = "Enabled"
DISABLED: Final = "Disabled"
GATE_OFF: Final = "IncrementalBackupFeatureGateDisabled"


def choose_state(present: str, *, selected: bool, gate: bool) -> str:
    """The state of a VM or a run that says `present`; empty for one that was never selected."""
    if selected:
        return ENABLED if gate else GATE_OFF
    return DISABLED if present else ""


def write_state(item: VirtualMachine | VirtualMachineInstance, *, selected: bool, gate: bool) -> Patch | None:
    """The write that makes the state true; None when it is."""
    told = item.status.changed_block_tracking
    present = "" if told is None else told.state
    wanted = choose_state(present, selected=selected, gate=gate)
    if wanted == present:
        return None
    # A VMI's status is written through the object itself.
    subresource = "status" if isinstance(item, VirtualMachine) else ""
    return Patch(item, {"status": {"changedBlockTracking": {"state": wanted}}}, subresource)
