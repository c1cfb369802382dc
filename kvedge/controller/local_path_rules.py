"""What local-path, the provisioner that k3s brings, cannot do, in words for the user of a VM on its claims.

Called by the rules of claims and by the copy of a claim in a VMI's status. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.types.storage import READ_ONLY_MANY, READ_WRITE_MANY, PersistentVolumeClaim

LOCAL_PATH: Final = "rancher.io/local-path"
# The reason with which a VMI's volume tells what its claim cannot do.
LIMITED: Final = "LimitedStorage"
_PROVISIONERS: Final = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")


def provisioner_of(claim: PersistentVolumeClaim) -> str:
    """Who makes the volume of a claim, or has made it; empty while nobody was asked."""
    said = claim.metadata.annotations
    return next((said[key] for key in _PROVISIONERS if key in said), "")


def binding_problem(claim: PersistentVolumeClaim) -> str:
    """Why local-path never makes a volume for this claim; empty when it does."""
    lacks = []
    if claim.is_block:
        lacks.append("volumeMode Block")
    lacks += [mode for mode in claim.spec.access_modes if mode in (READ_WRITE_MANY, READ_ONLY_MANY)]
    if not lacks:
        return ""
    return (
        f"{_class(claim)} cannot provide {' or '.join(lacks)}; make the claim anew with volumeMode Filesystem and"
        " accessModes ReadWriteOnce, or with another class"
    )


def limits_of(claim: PersistentVolumeClaim) -> str:
    """What a claim of local-path will never do, however well it works; empty for other claims."""
    if provisioner_of(claim) != LOCAL_PATH:
        return ""
    return (
        f"{_class(claim)} can neither grow PVC {claim.metadata.name} nor take a snapshot of it; for a larger disk or a"
        " copy, stop the VM and make a DataVolume of the wanted size with source.pvc"
    )


def _class(claim: PersistentVolumeClaim) -> str:
    return f"storage class {claim.spec.storage_class_name} (local-path)"
