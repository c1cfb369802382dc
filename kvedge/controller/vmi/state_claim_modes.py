"""Whether the claim for a VM's own state is made so that two nodes can have it, as a live migration needs.

Called by the VMI's steps before they create that claim; asks the API server for its storage class. As in KubeVirt the
StorageProfile decides, and where nobody knows the class, ReadWriteMany is asked for if `vmStateStorageClass` names it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvedge.controller.datavolumes.storage_facts.provisioners import find_property_sets
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.data_volume_names import DEFAULT_CLASS
from kvedge.resources.disks.default_class import ClassSeen, default_class_name
from kvedge.resources.types.data_volumes import ClaimPropertySet, StorageProfile
from kvedge.resources.types.storage import BLOCK, READ_WRITE_MANY, PersistentVolumeClaim, StorageClass


def with_modes(claim: PersistentVolumeClaim, client: KubeClient) -> PersistentVolumeClaim:
    """The claim, shared where its class is known for that.

    Raises:
        KubeError: when the server cannot be asked.
    """
    named = claim.spec.storage_class_name or ""
    found = _find_class(client, named)
    sets = [] if found is None else _read_profile(client, found.metadata.name) or find_property_sets(found.provisioner)
    if not is_shared(sets, is_named=bool(named)):
        return claim
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, access_modes=[READ_WRITE_MANY]))


def is_shared(sets: Sequence[ClaimPropertySet], *, is_named: bool) -> bool:
    """Whether to ask for a claim that many nodes write: a file system, by what claims of the class can be."""
    if not sets:
        return is_named
    return any(READ_WRITE_MANY in each.access_modes and each.volume_mode != BLOCK for each in sets)


def _find_class(client: KubeClient, name: str) -> StorageClass | None:
    if not name:
        classes = client.list(StorageClass)
        name = default_class_name((ClassSeen.of(each.metadata) for each in classes), DEFAULT_CLASS) or ""
        return next((each for each in classes if each.metadata.name == name), None)
    try:
        return client.get(StorageClass, "", name)
    except NotFound:
        return None


def _read_profile(client: KubeClient, name: str) -> Sequence[ClaimPropertySet]:
    try:
        return client.get(StorageProfile, "", name).status.claim_property_sets
    except NotFound:
        return ()
