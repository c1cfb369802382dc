"""What the plans of snapshots and restores see.

Filled in by the loops. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
)
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


class DriverClasses(Struct, frozen=True):
    """By the claim's name, the VolumeSnapshotClass of its driver; `doubts` say of others why none can be chosen."""

    by_claim: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)


class FreezeCall(Struct, frozen=True):
    """What has become of asking a guest's agent to freeze: since when it is asked, when that ended, and what failed.

    `is_own` is false while it goes on for another snapshot, or for nobody any more. `is_thawed`: it was thawed for this
    snapshot, or that has failed and is left to its launcher.
    """

    is_own: bool
    begun: datetime | None = None
    ended: datetime | None = None
    fault: str = ""
    is_thawed: bool = False


class SnapshotView(Struct, frozen=True):
    """One snapshot and what it is taken of.

    `claims` are those of the VM's volumes and of the copies, `copies` the DataVolumes that fill the latter, both by
    name. `pods` are launchers that have not ended and have a claim of the VM. `refusal` is why the server did not take
    what was to be made last. `revision` is what the VM's run was started from, where the VM's spec is another one now.
    `types` are the VM's copies of its instance type and preference, by the member of its spec. `classes` are those by
    which the drivers of its claims take snapshots, while it has not begun; `driver_snapshots` are the VolumeSnapshots
    of the content, by name; None when it is not known which there are. `unfilled` are claims that a driver is still to
    fill from these, looked for once the snapshot is deleted. `freeze` is the call that freezes the guest.
    """

    snapshot: VirtualMachineSnapshot
    content: VirtualMachineSnapshotContent | None = None
    vm: VirtualMachine | None = None
    vmi: VirtualMachineInstance | None = None
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    copies: Mapping[str, DataVolume] = field(default_factory=dict)
    pods: Sequence[str] = ()
    refusal: str = ""
    revision: JsonObject | None = None
    types: Mapping[str, JsonObject] = field(default_factory=dict)
    classes: DriverClasses = field(default_factory=DriverClasses)
    driver_snapshots: Mapping[str, VolumeSnapshot] | None = field(default_factory=dict)
    unfilled: Sequence[str] = ()
    freeze: FreezeCall | None = None


class RestoreView(Struct, frozen=True):
    """One restore, the snapshot, and the VM that it goes into.

    `volumes` are the DataVolumes of the names that the restored claims get; `claims` are those of the copies, and
    `copies` the DataVolumes that filled these; `driver_snapshots` are the VolumeSnapshots that drivers keep instead,
    None when it is not known which there are; `old` are the DataVolumes of the VM's templates as they are now;
    `binds_late` has those new ones whose claims a driver makes and fills once a Pod uses them.

    Of a restore in place: `targets` are the claims of the old names with their DataVolumes, `target_volumes`, `staged`
    those in which the new data come, `places` the volumes of both; `users` are Pods and VMIs that have such a claim.
    """

    restore: VirtualMachineRestore
    snapshot: VirtualMachineSnapshot | None = None
    content: VirtualMachineSnapshotContent | None = None
    vm: VirtualMachine | None = None
    vmi: VirtualMachineInstance | None = None
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, DataVolume] = field(default_factory=dict)
    old: Mapping[str, DataVolume] = field(default_factory=dict)
    refusal: str = ""
    copies: Mapping[str, DataVolume] = field(default_factory=dict)
    targets: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    target_volumes: Mapping[str, DataVolume] = field(default_factory=dict)
    staged: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    places: Mapping[str, PersistentVolume] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    driver_snapshots: Mapping[str, VolumeSnapshot] | None = field(default_factory=dict)
    binds_late: Collection[str] = ()
