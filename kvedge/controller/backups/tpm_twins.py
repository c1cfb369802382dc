"""Whether a backup that comes back as another VM would make a twin: two VMs with one TPM pass for one another.

Called by the loop of restores and their plan. Pure. The VM of another box or cluster is not seen from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvedge.resources.codec import decode
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.state_claims import keeps_tpm
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContentSpec
from kvedge.resources.types.vm import VirtualMachine


def target_of(restore: BackupRestore) -> str:
    """The VM that a restore makes; empty where disks come back alone."""
    if restore.spec.volumes:
        return ""
    return restore.spec.target_name or restore.spec.vm_name


def find_twin(
    restore: BackupRestore, restores: Iterable[BackupRestore], vm_of: Callable[[str, str], VirtualMachine | None]
) -> str:
    """NAMESPACE/NAME of another VM with the TPM of the backup's VM; empty for none.

    That is the VM itself, or one that another restore has made of it, or is about to make.
    """
    own = (restore.metadata.namespace, target_of(restore))
    source = _source_of(restore)
    names = [source]
    for each in restores:
        if each.metadata.uid == restore.metadata.uid or each.spec.isolated or not target_of(each):
            continue
        if _source_of(each) == source and any(volume.volume_name == STATE_VOLUME for volume in each.status.volumes):
            made = (each.metadata.namespace, target_of(each))
            if not each.is_final and made != own:
                return "/".join(made)
            names.append(made)
    return next(("/".join(name) for name in names if name != own and _has_tpm(vm_of(*name))), "")


def holds_tpm(content: VirtualMachineSnapshotContentSpec) -> bool:
    """Whether a backup has what is in a TPM.

    Raises:
        DecodeError: when its VM is none.
    """
    if all(each.volume_name != STATE_VOLUME or not each.volume_snapshot_name for each in content.volume_backups):
        return False
    return _has_tpm(decode(VirtualMachine, {"metadata": {}, "spec": {}, **(content.source.virtual_machine or {})}))


def _has_tpm(vm: VirtualMachine | None) -> bool:
    template = None if vm is None else vm.spec.template
    return template is not None and keeps_tpm(template.spec)


def _source_of(restore: BackupRestore) -> tuple[str, str]:
    return restore.spec.vm_namespace or restore.metadata.namespace, restore.spec.vm_name
