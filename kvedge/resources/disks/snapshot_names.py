"""Names and marks of snapshots and of what they are restored to: KubeVirt's where it has one.

Used by the controller, which makes them, and by admission, which keeps VMs from claims that hold snapshots. Pure.
"""

from __future__ import annotations

import re
from typing import Final

# Finalizers: on a snapshot, its content, a restore, and on the VM while one is taken of it.
SNAPSHOT_FINALIZER: Final = "snapshot.kubevirt.io/vmsnapshot-protection"
CONTENT_FINALIZER: Final = "snapshot.kubevirt.io/vmsnapshotcontent-protection"
RESTORE_FINALIZER: Final = "snapshot.kubevirt.io/vmrestore-protection"
SOURCE_FINALIZER: Final = "snapshot.kubevirt.io/snapshot-source-protection"
# Labels of what holds a volume's copy: of which VM it is.
SOURCE_VM_NAME: Final = "snapshot.kubevirt.io/source-vm-name"
SOURCE_VM_NAMESPACE: Final = "snapshot.kubevirt.io/source-vm-namespace"
# On a VM and on restored claims: name and UID of the restore that made them what they are.
LAST_RESTORE: Final = "restore.kubevirt.io/lastRestoreUID"
# What the former begins with on a VM that is made and has not been patched yet: it may still look like another one.
UNPATCHED: Final = "patches-due "
RESTORE_NAME: Final = "restore.kubevirt.io/name"
RESTORED_VM_NAME: Final = "restore.kubevirt.io/source-vm-name"
RESTORED_VM_NAMESPACE: Final = "restore.kubevirt.io/source-vm-namespace"
# Ours, on what a restore of a backup has made: the restore's UID.
RETURNED_BY: Final = "kvedge.io/restored-by"
# On each Pod that carries disks into backups and back: the UID of the run, the restore or the task that it works for.
BACKUP_WORKER: Final = "kvedge.io/backup-worker"
# ... and on a claim whose disk comes back while its guest uses it; and what keeps such a restore for as long.
COMES_BACK: Final = "kvedge.io/comes-back"
RETURN_FINALIZER: Final = "backup.kvedge.io/live-restore"
# Ours, on a content: how the volumes were copied. On a snapshot, `claim-copies` asks for copies of our own.
METHOD: Final = "kvedge.io/snapshot-method"
CLAIM_COPIES: Final = "claim-copies"
# Ours, on a snapshot: whether it is to have the guest's memory.
SNAPSHOT_MEMORY: Final = "kvedge.io/snapshot-memory"
# ... and the StorageClass of the claim for it. On a restore, "false" leaves the memory out.
MEMORY_CLASS: Final = "kvedge.io/snapshot-memory-class"
RESTORE_MEMORY: Final = "kvedge.io/restore-memory"
# Ours, on a VolumeSnapshotContent of one box: the directory in which it lies.
SNAPSHOT_PATH: Final = "kvedge.io/snapshot-path"
# Ours, on a PersistentVolume of one box: its place snapshots it at one moment, whatever is in it, and without a copy.
SNAPSHOTS_AT_ONCE: Final = "kvedge.io/snapshots-at-once"
# A storage driver keeps them, as VolumeSnapshots.
VOLUME_SNAPSHOTS: Final = "volume-snapshots"
# Of a VM that ran: its launcher has filled the claims. And which run it was, by the UID of its VMI.
LIVE_COPIES: Final = "live-copies"
RUN: Final = "kvedge.io/snapshot-run"
# Of a VM that ran while its driver took the snapshots: what kept the guest from writing, and until when it was frozen
# for sure.
HELD_BY: Final = "kvedge.io/snapshot-held-by"
FROZEN_UNTIL: Final = "kvedge.io/snapshot-frozen-until"

# Ours, on the DataVolume of a copy that is complete, or on the claim where there is none: the UID of the claim.
SEALED_CLAIM: Final = "kvedge.io/sealed-claim"

_LONGEST_CLAIM: Final = 253
_LONGEST_LABEL: Final = 63
_UID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_COPY: Final = re.compile(f"vmsnapshot-{_UID}-(?:volume-.|memory$)")


def content_name(snapshot_uid: str) -> str:
    """The name of a snapshot's content."""
    return f"vmsnapshot-content-{snapshot_uid}"


def volume_copy_name(snapshot_uid: str, volume: str) -> str:
    """The name of the claim that holds the copy of a volume.

    >>> volume_copy_name("0f5c0000-0000-4000-8000-000000000000", "root")
    'vmsnapshot-0f5c0000-0000-4000-8000-000000000000-volume-root'
    """
    return f"vmsnapshot-{snapshot_uid}-volume-{volume}"[:_LONGEST_CLAIM]


def memory_copy_name(snapshot_uid: str) -> str:
    """The name of the claim that holds the guest's memory."""
    return f"vmsnapshot-{snapshot_uid}-memory"


def is_volume_copy(claim: str) -> bool:
    """Whether a claim of that name holds a snapshot, by the name alone."""
    return _COPY.match(claim) is not None


def restored_name(restore_uid: str, volume: str) -> str:
    """The name of a restored claim, where nobody asks for another one."""
    return f"restore-{restore_uid}-{volume}"[:_LONGEST_CLAIM]


def prefixed_name(target: str, volume: str) -> str:
    """The name of a restored claim by the policy PrefixTargetName."""
    return f"{target}-{volume}"[:_LONGEST_LABEL].rstrip("-.")


def restore_mark(name: str, uid: str) -> str:
    """What a VM says of the last restore that has changed it."""
    return f"{name}-{uid}"
