"""The objects of one box's storage: its StorageClasses, and the PersistentVolumes that are made for claims. Pure.

Called by the provisioner. A role cannot tell these volumes from those of a cluster: they are of the type `local`.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

from kvedge.resources.data_volume_names import DEFAULT_CLASS
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
    claim: PersistentVolumeClaim, made_of: StorageClass, *, place: str, node: str, path: Path, size: int
) -> PersistentVolume:
    """The volume of a claim, which names the claim from the beginning."""
    term = {"matchExpressions": [{"key": HOST_NAME_LABEL, "operator": "In", "values": [node]}]}
    meta = claim.metadata
    return PersistentVolume(
        metadata=ObjectMeta(
            name=volume_name(claim),
            annotations={PROVISIONED_BY: PROVISIONER, PLACE_ANNOTATION: place},
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
