"""The words of Kubernetes' storage: annotations, finalizers, reasons and texts that its tools know.

Used by the plans and the loop beside it, and by the scheduler. Pure data.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.types.storage import BOX_PROVISIONER

PROVISIONER: Final = BOX_PROVISIONER
COMPONENT: Final = "persistentvolume-controller"

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
# Keeps the object of a volume of ours until its data is gone, whoever deletes the object and when.
DATA_PROTECTION: Final = "external-provisioner.volume.kubernetes.io/finalizer"

IMMEDIATE: Final = "Immediate"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
DELETE: Final = "Delete"
HOST_NAME_LABEL: Final = "kubernetes.io/hostname"
