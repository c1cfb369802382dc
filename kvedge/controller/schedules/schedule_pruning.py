"""Which snapshots of a schedule are old enough to go.

Called by `schedule_plan`. Pure. The newest complete one never goes, whatever failed after it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kvedge.resources.disks.schedule_names import PROTECTED, SEQUENCE
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot


def find_superseded(
    snapshots: Sequence[VirtualMachineSnapshot], keep: int, in_use: Collection[str]
) -> list[VirtualMachineSnapshot]:
    """Those that go: complete ones behind the newest `keep`, and others that a newer complete one stands for."""
    gone, kept = [], 0
    for snapshot in sorted(snapshots, key=sequence_of, reverse=True):
        meta = snapshot.metadata
        if meta.labels.get(PROTECTED, "false") != "false":
            continue
        is_complete = snapshot.status.phase == "Succeeded" and bool(snapshot.status.ready_to_use)
        if is_complete and kept < keep:
            kept += 1
            continue
        is_over = snapshot.is_final and (kept >= keep if is_complete else kept >= 1)
        if is_over and meta.name not in in_use and meta.deletion_timestamp is None:
            gone.append(snapshot)
    return gone


def sequence_of(snapshot: VirtualMachineSnapshot) -> int:
    """The number of a snapshot; one whose label somebody has spoilt counts as the newest, and stays."""
    text = snapshot.metadata.labels.get(SEQUENCE, "")
    return int(text) if text.isascii() and text.isdigit() else 1 << 62
