"""What a restore in place has to know of its claims from its first step to its last, written down before that.

Made and read by `in_place_plan`. Pure. It stands in the restore's status, which its user cannot write: once a claim is
gone, nothing else tells what it was, and which of two volumes has the new data. Volumes belong to no namespace, so none
is touched but those of this namespace's claims, whatever is written there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from kvedge.controller.snapshots.restored_vm import fill_name, is_in_place, mark_of
from kvedge.controller.snapshots.snapshot_view import RestoreView
from kvedge.controller.snapshots.volume_copies import claim_like
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.data_volume_names import CONTENT_TYPE
from kvedge.resources.disks.snapshot_names import LAST_RESTORE, RESTORE_NAME
from kvedge.resources.meta import OwnerReference
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VolumeRestore
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim

# Annotations of a claim that speak of the volume or the worker that it had; KubeVirt drops the same.
_OF_BEFORE: Final = (
    *("pv.kubernetes.io/", "volume.beta.kubernetes.io/", "volume.kubernetes.io/", "cdi.kubevirt.io/"),
    *("k8s.io/CloneRequest", "k8s.io/CloneOf", "kubectl.kubernetes.io/", "kvedge.io/"),
)
# Claims with more to be remembered are no one's.
_LONGEST: Final = 128 << 10


class TooMuchToRecord(Exception):
    """The claims' labels and annotations are too long to be kept in the restore."""


class Exchange(msgspec.Struct, frozen=True):
    """One claim, the volume with its new data and the one that it had, with the policies that these had before.

    `filled` is the claim in which the new data came, with its UID. `old_uid` is the claim's of before; it is empty when
    there was none, and `old_volume` when that had no volume.
    """

    claim: str
    filled: str
    filled_uid: str
    new_volume: str
    new_policy: str
    old_uid: str
    old_volume: str
    old_policy: str
    spec: JsonObject
    labels: dict[str, str]
    annotations: dict[str, str]
    owners: list[JsonObject] = []


def read_record(restore: VirtualMachineRestore) -> list[Exchange]:
    """What was written down; nothing before that."""
    text = restore.status.in_place_record
    return msgspec.json.decode(text, type=list[Exchange]) if text else []


def is_of_claims(place: PersistentVolume, namespace: str, names: Collection[str]) -> bool:
    """Whether a volume is, or was last, that of one of these claims."""
    ref = place.spec.claim_ref
    return ref is not None and ref.namespace == namespace and ref.name in names


def make_record(exchanges: list[Exchange]) -> JsonObject:
    """A merge patch of the restore's status.

    Raises:
        TooMuchToRecord: it is too long.
    """
    text = msgspec.json.encode(exchanges).decode()
    if len(text) > _LONGEST:
        raise TooMuchToRecord(f"the labels and annotations of the claims have more than {_LONGEST} bytes")
    return {"status": {"inPlaceRecord": text}}


def make_exchange(view: RestoreView, volume: VolumeRestore, places: dict[str, PersistentVolume]) -> Exchange:
    """What is to be written down of one volume; `places` has the volume of each of the two claims, by its name."""
    restore, name = view.restore, volume.persistent_volume_claim
    filled = view.staged[fill_name(restore, volume)]
    old = view.targets.get(name)
    new_place = places[filled.spec.volume_name]
    old_place = places.get("" if old is None else old.spec.volume_name)
    overrides = restore.spec.volume_restore_overrides
    extra = next((each for each in overrides if each.volume_name == volume.volume_name), None)
    said = {key: value for key, value in filled.metadata.annotations.items() if key == CONTENT_TYPE}
    return Exchange(
        claim=name,
        filled=filled.metadata.name,
        filled_uid=filled.metadata.uid,
        new_volume=new_place.metadata.name,
        new_policy=new_place.spec.persistent_volume_reclaim_policy,
        old_uid="" if old is None else old.metadata.uid,
        old_volume="" if old_place is None else old_place.metadata.name,
        old_policy="" if old_place is None else old_place.spec.persistent_volume_reclaim_policy,
        spec={**encode(claim_like(filled)), "volumeName": new_place.metadata.name},
        labels={**({} if old is None else old.metadata.labels), **({} if extra is None else extra.labels)},
        annotations={
            **({} if old is None else _lasting_notes(old)),
            **({} if extra is None else extra.annotations),
            **said,
            RESTORE_NAME: restore.metadata.name,
            LAST_RESTORE: mark_of(restore),
        },
        # A DataVolume takes the claim of its name over again by itself.
        owners=[] if old is None else [encode(each) for each in old.metadata.owner_references if not _fills(each)],
    )


def in_place_volumes(restore: VirtualMachineRestore) -> list[VolumeRestore]:
    """The volumes whose data come into the claims of their old ones."""
    return [each for each in restore.status.restores if is_in_place(restore, each)]


def _fills(owner: OwnerReference) -> bool:
    return owner.kind == DataVolume.KIND.kind


def _lasting_notes(claim: PersistentVolumeClaim) -> dict[str, str]:
    return {key: value for key, value in claim.metadata.annotations.items() if not key.startswith(_OF_BEFORE)}
