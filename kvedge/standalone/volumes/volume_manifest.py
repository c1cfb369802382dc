"""The objects of one box's storage: its StorageClasses, and the PersistentVolumes that are made for claims. Pure.

Called by the provisioner. A role cannot tell these volumes from those of a cluster: they are of the type `local`.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

from kvedge.resources.data_volume_names import DEFAULT_CLASS
from kvedge.resources.disks.snapshot_names import SNAPSHOTS_AT_ONCE
from kvedge.resources.meta import ObjectMeta, ObjectReference
from kvedge.resources.types.storage import (
    FILESYSTEM,
    LocalVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
)
from kvedge.resources.values.quantities import format_bytes
from kvedge.standalone.volumes.volume_words import (
    DATA_PROTECTION,
    DELETE,
    HOST_NAME_LABEL,
    IMMEDIATE,
    PROVISIONED_BY,
    PROVISIONER,
)

DEFAULT_NAME: Final = "kvedge"
# Which place of the settings a class takes its volumes from, and a volume lies in.
PLACE_PARAMETER: Final = "place"
PLACE_ANNOTATION: Final = "kvedge.io/place"
_PREFIX: Final = "pvc-"
# By which a class may name a place of the settings that is a thin pool instead.
DRIVER_PARAMETER: Final = "driver"
LVM_THIN: Final = "lvm-thin"
GROUP_PARAMETER: Final = "volume-group"
POOL_PARAMETER: Final = "thin-pool"
_THIN_PARAMETERS: Final = frozenset({DRIVER_PARAMETER, GROUP_PARAMETER, POOL_PARAMETER})
# By which a class asks for LVM, with other provisioners' names of parameters.
_LVM_WORDS: Final = ("lvm", "vg", "thin", "volumegroup", "volume-group")
_LONGEST_NAME: Final = 64
# A volume has whole sectors, and a size that a quantity of bytes can say.
_GRAIN: Final = 4096


def storage_class(place: str, *, default: bool) -> StorageClass:
    """The class of a place of the settings, named after it."""
    return StorageClass(
        metadata=ObjectMeta(name=place, annotations={DEFAULT_CLASS: "true"} if default else {}),
        provisioner=PROVISIONER,
        parameters={PLACE_PARAMETER: place},
        reclaim_policy=DELETE,
        volume_binding_mode=IMMEDIATE,
        allow_volume_expansion=True,
    )


def wrong_parameters(made_of: StorageClass) -> str:
    """What a class of ours asks for that there is none of, with the remedy; empty when nothing is wrong."""
    if made_of.parameters.keys() == _THIN_PARAMETERS and made_of.parameters[DRIVER_PARAMETER] == LVM_THIN:
        return ""
    unknown = sorted(name for name in made_of.parameters if name != PLACE_PARAMETER)
    if not unknown:
        return ""
    field = f"StorageClass {made_of.metadata.name}: parameters.{unknown[0][:_LONGEST_NAME]}"
    words = " ".join(text for name in unknown for text in (name, made_of.parameters[name])).lower()
    if any(word in words for word in _LVM_WORDS):
        return (
            f"{field}: a thin pool of LVM is a place of the setting volume-places (NAME={LVM_THIN}:GROUP/POOL): make "
            f"the class anew with that {PLACE_PARAMETER} alone, or with {DRIVER_PARAMETER}: {LVM_THIN}, "
            f"{GROUP_PARAMETER} and {POOL_PARAMETER}"
        )
    return f"{field}: unknown; the one parameter is {PLACE_PARAMETER}: make the class anew without it"


def volume_name(claim: PersistentVolumeClaim) -> str:
    """The name of the volume that is made for a claim: by it a repeated attempt finds the first one's."""
    return f"{_PREFIX}{claim.metadata.uid}"


def driver_name(volume: PersistentVolume) -> str:
    """What the driver calls a volume of ours: the UID of the claim that it was made for."""
    return volume.metadata.name.removeprefix(_PREFIX)


def volume_size(wanted: Fraction) -> int:
    """How many bytes a volume for a claim gets."""
    return max(_GRAIN, -(-wanted // _GRAIN) * _GRAIN)


def volume_for(
    claim: PersistentVolumeClaim,
    made_of: StorageClass,
    *,
    place: str,
    node: str,
    path: Path,
    size: int,
    at_once: bool = False,
) -> PersistentVolume:
    """The volume of a claim, which names the claim from the beginning.

    It says for the controller, which knows no places, whether its place snapshots any volume `at_once`.
    """
    term = {"matchExpressions": [{"key": HOST_NAME_LABEL, "operator": "In", "values": [node]}]}
    meta = claim.metadata
    return PersistentVolume(
        metadata=ObjectMeta(
            name=volume_name(claim),
            annotations={
                PROVISIONED_BY: PROVISIONER,
                PLACE_ANNOTATION: place,
                **({SNAPSHOTS_AT_ONCE: "true"} if at_once else {}),
            },
            finalizers=[DATA_PROTECTION],
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": format_bytes(size)},
            access_modes=list(claim.spec.access_modes),
            volume_mode=claim.spec.volume_mode or FILESYSTEM,
            storage_class_name=claim.spec.storage_class_name or "",
            persistent_volume_reclaim_policy=made_of.reclaim_policy or DELETE,
            claim_ref=ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            ),
            node_affinity={"required": {"nodeSelectorTerms": [term]}},
            local=LocalVolume(path=str(path)),
        ),
    )
