"""What the plan of a clone sees.

Filled in by `clone_loop`. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine


class CloneView(Struct, frozen=True):
    """One clone, its source, and what it has made.

    `snapshot` is the source, or what was taken of it; `target` is the VM of the target's name; `claims` are those that
    the restore has named. `refusal` is why the server did not take what was to be made last.
    """

    clone: VirtualMachineClone
    source: VirtualMachine | None = None
    snapshot: VirtualMachineSnapshot | None = None
    content: VirtualMachineSnapshotContent | None = None
    restore: VirtualMachineRestore | None = None
    target: VirtualMachine | None = None
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    refusal: str = ""
