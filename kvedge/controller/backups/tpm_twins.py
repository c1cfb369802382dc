"""Whether a backup that comes back would make a twin: two VMs with one TPM pass for one another.

Called by the loop of restores and their plan. Pure. A TPM is known by the UID of the VM that had it first, which a VM
that came back says by an annotation: names change hands, and restores are deleted. The VM of another box or cluster is
not seen from here.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.state_claims import keeps_tpm, origin_of
from kvedge.resources.types.protection.backups import BackupRestore
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContentSpec
from kvedge.resources.types.vm import VirtualMachine


def find_twin(
    restore: BackupRestore, content: JsonObject, restores: Iterable[BackupRestore], vms: Iterable[VirtualMachine]
) -> str:
    """NAMESPACE/NAME of another VM with the TPM that a backup has; empty for none. `content` is the backup's record.

    It is there, or another restore is about to make it. One in another namespace that may never end takes nothing from
    the VM's own namespace and name.
    """
    origin = _read_origin(content)
    if not origin:
        return ""
    own = (restore.metadata.namespace, restore.target)
    is_home = own == (restore.spec.vm_namespace or restore.metadata.namespace, restore.spec.vm_name)
    for vm in vms:
        name = (vm.metadata.namespace, vm.metadata.name)
        if name != own and _has_tpm(vm) and origin_of(encode(vm.metadata)) == origin:
            return "/".join(name)
    for each in restores:
        made = (each.metadata.namespace, each.target)
        if each.metadata.uid == restore.metadata.uid or made == own or (is_home and made[0] != own[0]):
            continue
        if _brings_state(each) and _read_origin(each.status.content or {}) == origin:
            return "/".join(made)
    return ""


def _brings_state(restore: BackupRestore) -> bool:
    """Whether it is under way and has the state of TPM and firmware for a VM that stays."""
    if restore.is_final or restore.spec.isolated or not restore.target:
        return False
    return any(volume.volume_name == STATE_VOLUME for volume in restore.status.volumes)


def _read_origin(content: JsonObject) -> str:
    """Whose TPM a backup has, by its record, which came from outside the cluster."""
    found: object = content
    for name in ("source", "virtualMachine", "metadata"):
        found = found.get(name) if isinstance(found, dict) else None
    return origin_of(found) if isinstance(found, dict) else ""


def holds_tpm(content: VirtualMachineSnapshotContentSpec) -> bool:
    """Whether a backup has what is in a TPM.

    Raises:
        DecodeError: when its VM is none.
    """
    has_state = any(each.volume_name == STATE_VOLUME and each.volume_snapshot_name for each in content.volume_backups)
    document = {"metadata": {}, "spec": {}, **(content.source.virtual_machine or {})}
    return has_state and _has_tpm(decode(VirtualMachine, document))


def _has_tpm(vm: VirtualMachine) -> bool:
    template = vm.spec.template
    return template is not None and keeps_tpm(template.spec)
