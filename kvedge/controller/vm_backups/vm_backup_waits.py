"""Why a backup cannot begin yet, and why it never can.

Called by `vm_backup_plan`. Pure. The first words are KubeVirt's.
"""

from __future__ import annotations

from kvedge.controller.vm_backups.vm_backup_order import BACKUP, find_disks
from kvedge.controller.vm_backups.vm_backup_view import VmBackupView
from kvedge.controller.vmi.launcher_pods import is_moving
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.vmi import VirtualMachineInstance

ENABLED = "Enabled"


def find_wait(view: VmBackupView) -> str:
    """What a backup waits for; empty when it can begin."""
    backup, name = view.backup, view.vm_name
    namespace = backup.metadata.namespace
    if backup.by_tracker and view.tracker is None:
        return f"BackupTracker {backup.spec.source.name} does not exist"
    if view.vm is None:
        return f"VM {namespace}/{name} doesnt exist"
    if view.rival:
        return f'VirtualMachineBackup "{view.rival}" in progress for source'
    vmi = view.vmi
    if vmi is None or vmi.is_final or vmi.metadata.deletion_timestamp is not None or vmi.status.phase != "Running":
        return f"vm {name} is not running, cannot do backup"
    if not find_disks(vmi):
        return f"vm {name} has no volumes to backup: it has no disk on a claim or a hostDisk that its guest writes"
    tracking = vmi.status.changed_block_tracking
    if backup.by_tracker and (tracking is None or tracking.state != ENABLED):
        return (
            f"vm {name} has no ChangedBlockTracking, cannot start backup: have the KubeVirt object's"
            " changedBlockTrackingLabelSelectors select it"
        )
    if is_moving(vmi):
        return f"vm {name} is currently migrating, waiting for migration to complete before starting backup"
    if view.claim is None:
        return f"PVC {namespace}/{backup.spec.pvc_name} doesnt exist"
    return _find_other_work(view, vmi)


def _find_other_work(view: VmBackupView, vmi: VirtualMachineInstance) -> str:
    assert view.vm is not None
    name, status = view.vm_name, view.vm.status
    if vmi.status.evacuation_node_name:
        return f"vm {name} is to leave its node, waiting for that before starting backup"
    if busy := status.snapshot_in_progress or status.restore_in_progress:
        return f'"{busy}" of vm {name} in progress'
    if vmi.status.disk_copy is not None or any(each.type == BACKUP for each in vmi.spec.utility_volumes):
        return f"vm {name} still has the volumes of another backup or snapshot"
    return ""


def find_fault(view: VmBackupView) -> str:
    """Why a backup never can begin as it is; empty when it can."""
    if view.claim is not None and view.claim.is_block:
        return f"PVC {view.claim.metadata.name} is a block device, and images need one of mode Filesystem"
    used = {} if view.vmi is None else {claim: volume.name for volume, claim in claims(view.vmi.spec.volumes)}
    if view.backup.spec.pvc_name in used:
        name = view.backup.spec.pvc_name
        return f"PVC {name} is volume {used[name]} of the VM itself; name another one"
    return ""
