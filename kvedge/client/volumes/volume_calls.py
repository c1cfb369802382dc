"""Claims on an API server: found, made, grown and deleted.

Called by the verbs. Raises UsageError for what no server need be asked.
"""

from __future__ import annotations

from kvedge.client.errors import UsageError
from kvedge.client.session import Session, check_name
from kvedge.client.volumes.volume_rows import users_of
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.storage import BLOCK, READ_WRITE_ONCE, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import QuantityError, parse_quantity


def check_size(size: str) -> str:
    """A size above zero.

    Raises:
        UsageError: for anything else.
    """
    try:
        if parse_quantity(size) > 0:
            return size
    except QuantityError as error:
        raise UsageError(f"size {error}") from error
    raise UsageError(f"size {size} must be greater than 0")


def claim_document(
    name: str, namespace: str, size: str, *, storage_class: str | None, block: bool, access_mode: str = READ_WRITE_ONCE
) -> JsonObject:
    """The manifest of a claim; without a class the server's default one counts."""
    spec: JsonObject = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": check_size(size)}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if block:
        spec["volumeMode"] = BLOCK
    metadata: JsonObject = {"name": check_name(name), "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def create_claim(session: Session, document: JsonObject) -> None:
    """Make it; raises KubeError as the server answers."""
    path = PersistentVolumeClaim.KIND.path(session.namespace)
    session.client.request("POST", path, document)


def resize_claim(session: Session, name: str, size: str) -> bool:
    """Ask for more; False when the claim asks for so much already.

    Raises:
        UsageError: for less than it asks for now: no disk is ever cut.
        KubeError: when the server refuses, for instance as the class does not grow.
    """
    wanted = parse_quantity(check_size(size))
    claim = session.client.get(PersistentVolumeClaim, session.namespace, check_name(name))
    now = claim.spec.resources.requests.get("storage", 0)
    if wanted < parse_quantity(now):
        raise UsageError(
            f"{name} has {now}, and a volume only grows: for a smaller one make another volume and copy in the guest"
        )
    if wanted == parse_quantity(now):
        return False
    change = {"spec": {"resources": {"requests": {"storage": size}}}}
    session.client.patch(PersistentVolumeClaim, session.namespace, name, MergePatch(change))
    return True


def users_of_claim(session: Session, name: str) -> list[str]:
    """The VMs of the namespace that have this claim in their volumes."""
    vms = session.client.list(VirtualMachine, session.namespace)
    vmis = session.client.list(VirtualMachineInstance, session.namespace)
    return users_of(vms, vmis).get((session.namespace, name), [])


def filler_of_claim(session: Session, name: str) -> str:
    """The DataVolume that makes this claim again when it is deleted; empty for none.

    Raises:
        NotFound: there is no such claim.
    """
    owner = session.client.get(PersistentVolumeClaim, session.namespace, name).metadata.controller_reference()
    return owner.name if owner is not None and owner.kind == "DataVolume" else ""
