"""The built-in kinds of snapshots of claims. Notation: see `builtin_schemas`."""

from __future__ import annotations

from typing import Final

SNAPSHOTS: Final = """
VolumeSnapshot kind: A claim as it was at one time.
  spec! VolumeSnapshotSpec: Of what, and how; only the class may be given later.
  status VolumeSnapshotStatus: How far it is.

VolumeSnapshotSpec: What a snapshot is taken of, and how.
  source! VolumeSnapshotSource: What it is of; exactly one field. It cannot be changed.
  volumeSnapshotClassName string: The class; the default one of the claim's driver when none is named.

VolumeSnapshotSource: What a snapshot is of.
  persistentVolumeClaimName string: The claim in the same namespace of which one is taken.
  volumeSnapshotContentName string: The VolumeSnapshotContent of a snapshot that is there already.

VolumeSnapshotStatus: How far a snapshot is.
  boundVolumeSnapshotContentName string: The VolumeSnapshotContent that has it, which names the snapshot as well.
  creationTime time: The time that it shows.
  readyToUse boolean: Whether claims can be made of it.
  restoreSize quantity: How large such a claim must be at least.
  error VolumeSnapshotError: Why it could not be taken at the last attempt; it is tried again.
  volumeGroupSnapshotName string: The group of snapshots that it was taken with.

VolumeSnapshotError: Why a snapshot could not be taken.
  time time: When that was.
  message string: Why, and what to do.

VolumeSnapshotContent kind: What a snapshot holds, as its driver knows it.
  spec! VolumeSnapshotContentSpec: What it is.
  status VolumeSnapshotContentStatus: How far it is.

VolumeSnapshotContentSpec: What a snapshot holds.
  volumeSnapshotRef! ObjectReference: The VolumeSnapshot, by name and namespace.
  deletionPolicy! string: Delete or Retain: what becomes of the data when the VolumeSnapshot is deleted.
  driver! string: The driver that has it.
  source! VolumeSnapshotContentSource: What it is of; exactly one field. It cannot be changed.
  sourceVolumeMode string: Filesystem or Block, as the volume was. It cannot be changed.
  volumeSnapshotClassName string: The class by which it was taken.

VolumeSnapshotContentSource: What a snapshot is of, as its driver knows it.
  snapshotHandle string: A snapshot that is there already.
  volumeHandle string: The volume of which one is taken.

VolumeSnapshotContentStatus: How far a snapshot is, as its driver knows it.
  snapshotHandle string: What its driver calls it.
  creationTime integer: The time that it shows, in nanoseconds since 1970.
  readyToUse boolean: Whether volumes can be made of it.
  restoreSize integer: How large such a volume must be at least, in bytes.
  error VolumeSnapshotError: Why it could not be taken at the last attempt.
  volumeGroupSnapshotHandle string: The group of snapshots that it was taken with.

VolumeSnapshotClass kind: A way in which snapshots of claims are taken.
  driver! string: The driver that takes them.
  deletionPolicy! string: Delete or Retain: what becomes of the data when a VolumeSnapshot is deleted.
  parameters {string}: Settings of the driver.
"""
