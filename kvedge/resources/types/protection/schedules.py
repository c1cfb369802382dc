"""Snapshots of virtual machines that are taken again and again (snapshot.kvedge.io/v1alpha1): KubeVirt has none.

Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.types.protection.snapshots import TypedReference

SCHEDULE_GROUP: Final = "snapshot.kvedge.io"
SCHEDULE_VERSION: Final = "v1alpha1"
# How many are kept where nobody says.
DEFAULT_KEEP: Final = 24


class VirtualMachineSnapshotScheduleSpec(KubeStruct, kw_only=True):
    """Of which VM, how often, and how many stay."""

    source: TypedReference = field(default_factory=TypedReference)
    every: str = ""
    keep: int | None = None
    suspend: bool | None = None


class VirtualMachineSnapshotScheduleStatus(KubeStruct, kw_only=True):
    """What became of it. Numbers order the snapshots: a clock may jump."""

    last_sequence: int | None = None
    last_schedule_time: str | None = None
    next_schedule_time: str | None = None
    current_snapshot: str | None = None
    last_success_time: str | None = None
    last_success_snapshot: str | None = None
    failures: int | None = None
    conditions: list[Condition] = []


class VirtualMachineSnapshotSchedule(KubeStruct, kw_only=True):
    """snapshot.kvedge.io/v1alpha1 VirtualMachineSnapshotSchedule: takes snapshots of a VM, and deletes old ones."""

    KIND: ClassVar[Kind] = Kind(
        SCHEDULE_GROUP, SCHEDULE_VERSION, "VirtualMachineSnapshotSchedule", "virtualmachinesnapshotschedules"
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VirtualMachineSnapshotScheduleSpec = field(default_factory=VirtualMachineSnapshotScheduleSpec)
    status: VirtualMachineSnapshotScheduleStatus = field(default_factory=VirtualMachineSnapshotScheduleStatus)
