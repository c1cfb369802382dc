"""The VM and the claims that a backup becomes again.

Called by the plan of restores. Pure. What a backup says is judged by admission once more, when the VM is made.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final

from kvedge.controller.backups.isolated_vm import isolate
from kvedge.controller.backups.live_return import start_at_once
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.disks.portable_vm import without_history
from kvedge.resources.disks.snapshot_names import COMES_BACK, RETURNED_BY, restored_name
from kvedge.resources.disks.state_claims import STATE_CLAIM, STATE_LABEL, mark_origin
from kvedge.resources.meta import ObjectMeta, owner_reference
from kvedge.resources.types.protection.backup_job import BackupRecord
from kvedge.resources.types.protection.backups import BackupRestore, RestoredVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContentSpec
from kvedge.resources.types.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResources
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.label_values import as_label_value
from kvedge.resources.values.quantities import parse_bytes

_STORAGE: Final = "storage"
_MIB: Final = 1 << 20
# What a file system takes of a claim, at the most.
_OVERHEAD: Final = 1.06
_MOST_VOLUMES: Final = 256


def plan_volumes(
    restore: BackupRestore, content: VirtualMachineSnapshotContentSpec, record: BackupRecord, *, state: bool = True
) -> list[RestoredVolume]:
    """The disks that are to come back and the names of their claims: all, or those that the restore names; without
    `state` not that of TPM and UEFI firmware.

    Raises:
        ValueError: when the record has other disks than the VM, or lacks one.
    """
    known = {each.volume_name for each in content.volume_backups if each.volume_snapshot_name}
    names = [each.name for each in record.volumes]
    if set(names) != known or len(set(names)) != len(names) or len(names) > _MOST_VOLUMES:
        raise ValueError(
            f"it has the disks {', '.join(names) or 'none'}, and its VM {', '.join(sorted(known)) or 'none'}"
        )
    asked = {each.volume_name: each.claim_name for each in restore.spec.volumes}
    if lacking := sorted(asked.keys() - set(names)):
        raise ValueError(f"it has no disk {', '.join(lacking)}: it has {', '.join(names) or 'none'}")
    return [
        RestoredVolume(
            volume_name=each.name,
            claim_name=asked.get(each.name) or restored_name(restore.metadata.uid, each.name),
            size=each.size,
        )
        for each in record.volumes
        if each.name in asked or (not asked and (state or each.name != STATE_VOLUME))
    ]


def make_claim(
    restore: BackupRestore, content: VirtualMachineSnapshotContentSpec, volume: RestoredVolume
) -> PersistentVolumeClaim:
    """A claim as the one that was backed up, at least as large, of the class that the restore asks for."""
    backup = next(each for each in content.volume_backups if each.volume_name == volume.volume_name)
    was = decode(PersistentVolumeClaimSpec, backup.persistent_volume_claim.spec)
    is_block = was.volume_mode == "Block"
    needed = volume.size if is_block else int(volume.size * _OVERHEAD) + _MIB
    size = max(parse_bytes(was.resources.requests.get(_STORAGE, 0)), volume.size)
    if not is_block and size < needed:
        size = needed
    wanted = restore.spec.storage_class_name
    # The state of a VM that is not made says whose it was.
    guest = restore.target or restore.spec.vm_name
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=volume.claim_name,
            namespace=restore.metadata.namespace,
            labels={STATE_LABEL: as_label_value(guest)} if volume.volume_name == STATE_VOLUME else {},
            annotations={RETURNED_BY: restore.metadata.uid, **({COMES_BACK: "true"} if restore.spec.live else {})},
            owner_references=[owner_reference(restore)],
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=list(was.access_modes) or ["ReadWriteOnce"],
            resources=VolumeResources(requests={_STORAGE: str(-(-size // _MIB) * _MIB)}),
            volume_mode=was.volume_mode,
            storage_class_name=was.storage_class_name if wanted is None else wanted,
        ),
    )


def make_vm(
    restore: BackupRestore, content: VirtualMachineSnapshotContentSpec, volumes: Sequence[RestoredVolume]
) -> VirtualMachine:
    """The VM, which does not run, as its owner looks at it first; a live one does.

    Raises:
        DecodeError: when the document is no VM.
    """
    source: JsonObject = copy.deepcopy(content.source.virtual_machine or {})
    spec = source.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    _exchange_claims(spec, volumes)
    if restore.spec.live:
        start_at_once(spec)
    elif spec.pop("running", None) is not None:
        spec["running"] = False
    else:
        spec["runStrategy"] = "Halted"
    was = source.get("metadata")
    was = was if isinstance(was, dict) else {}
    state = _mark_state(volumes)
    if restore.spec.isolated:
        name, owner = restore.target, owner_reference(restore)
        return VirtualMachine(
            metadata=ObjectMeta(
                name=name,
                namespace=restore.metadata.namespace,
                annotations={**state, RETURNED_BY: restore.metadata.uid},
                owner_references=[owner],
            ),
            spec=decode(VirtualMachine, {"spec": isolate(spec, {each.claim_name for each in volumes})}).spec,
        )
    metadata = {
        "name": restore.target,
        "namespace": restore.metadata.namespace,
        "labels": dict(was.get("labels") or {}),
        "annotations": {
            **without_history(was.get("annotations") or {}),
            **state,
            **(mark_origin(was) if state else {}),
            RETURNED_BY: restore.metadata.uid,
        },
    }
    return decode(VirtualMachine, {"metadata": metadata, "spec": spec})


def _mark_state(volumes: Sequence[RestoredVolume]) -> dict[str, str]:
    """Where the VM finds the state of its TPM and UEFI firmware, if that comes back, too."""
    found = next((each for each in volumes if each.volume_name == STATE_VOLUME), None)
    return {} if found is None else {STATE_CLAIM: found.claim_name}


def _exchange_claims(spec: JsonObject, volumes: Sequence[RestoredVolume]) -> None:
    """Name the new claims; templates of the old disks go, as they would be filled anew."""
    claims = {each.volume_name: each.claim_name for each in volumes}
    template = spec.get("template")
    inner = template.get("spec") if isinstance(template, dict) else None
    if isinstance(inner, dict) and inner.get("volumes"):
        # The claim of memory dumps is the old VM's for as long as its status says so: nobody could take it from this
        # one, which could have no other.
        inner["volumes"] = [volume for volume in inner["volumes"] if "memoryDump" not in volume]
    gone = set()
    for volume in (inner.get("volumes") if isinstance(inner, dict) else None) or ():
        claim = claims.get(str(volume.get("name", "")))
        if claim is None:
            continue
        old = volume.pop("dataVolume", None) or volume.pop("persistentVolumeClaim", None) or {}
        gone.add(str(old.get("name") or old.get("claimName") or ""))
        kept = {key: value for key, value in old.items() if key not in ("name", "claimName")}
        volume["persistentVolumeClaim"] = {**kept, "claimName": claim}
    templates = spec.get("dataVolumeTemplates") or []
    left = [each for each in templates if (each.get("metadata") or {}).get("name") not in gone]
    spec.pop("dataVolumeTemplates", None)
    if left:
        spec["dataVolumeTemplates"] = left
