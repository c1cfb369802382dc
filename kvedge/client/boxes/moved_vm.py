"""The objects that a VM becomes on another box: the VM, claims for its disks, what it names besides.

Called by `box_move`. Pure. The guest is known by the same firmware and NICs there. Its disks come with it: the VM names
claims, and brings no DataVolume that would fill them with something else.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from kvedge.resources.codec import JsonObject
from kvedge.resources.moves.crossing import MOVED_TO, MOVES_TO, RESTORE_RUN_STRATEGY, WAIT_AS_RECEIVER
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# On all that was made on the target: the migration for which it was.
MADE_FOR: Final = "kvedge.io/made-for-migration"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
# Where a VM names a Secret or a ConfigMap: the member, and that of the name in it.
_SECRETS: Final = (
    ("secretRef", "name"),
    ("networkDataSecretRef", "name"),
    ("secret", "secretName"),
    ("secret", "name"),
)


class Named(NamedTuple):
    """A Secret or a ConfigMap, by its resource, that a VM names."""

    resource: str
    name: str


def vm_document(source: JsonObject, vm: VirtualMachine, vmi: VirtualMachineInstance, migration_id: str) -> JsonObject:
    """The VM as it waits for its guest; `source` is it as its box has it."""
    found = copy.deepcopy(source)
    meta, spec = found["metadata"], found["spec"]
    dropped = {_LAST_APPLIED, MOVES_TO, MOVED_TO, KEPT_TYPES}
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in dropped}
    metadata: JsonObject = {
        "name": vm.metadata.name,
        "namespace": vm.metadata.namespace,
        "labels": {**(meta.get("labels") or {}), MADE_FOR: migration_id},
        "annotations": {**annotations, RESTORE_RUN_STRATEGY: vm.run_strategy},
    }
    spec.pop("running", None)
    spec.pop("dataVolumeTemplates", None)
    spec["runStrategy"] = WAIT_AS_RECEIVER
    guest = spec["template"]["spec"]
    _keep_identity(guest, vmi)
    for volume in guest.get("volumes") or ():
        if "dataVolume" in volume:
            volume["persistentVolumeClaim"] = {"claimName": volume.pop("dataVolume")["name"]}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata, "spec": spec}


def claim_document(
    claim: PersistentVolumeClaim, storage_class: str | None, migration_id: str, labels: Collection[str] = ()
) -> JsonObject:
    """An empty claim of the same size and kind; `labels` are those of the source's that are kept."""
    spec: JsonObject = {
        "accessModes": list(claim.spec.access_modes),
        "resources": {"requests": {"storage": claim.spec.resources.requests.get("storage", "0")}},
    }
    if claim.spec.volume_mode:
        spec["volumeMode"] = claim.spec.volume_mode
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    kept = {key: value for key, value in claim.metadata.labels.items() if key in labels}
    metadata: JsonObject = {
        "name": claim.metadata.name,
        "namespace": claim.metadata.namespace,
        "labels": {**kept, MADE_FOR: migration_id},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def copied_document(source: JsonObject, migration_id: str) -> JsonObject:
    """A Secret or a ConfigMap as it is made on the other box."""
    meta = source["metadata"]
    metadata: JsonObject = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": {**(meta.get("labels") or {}), MADE_FOR: migration_id},
    }
    kept: JsonObject = {
        key: source[key] for key in ("apiVersion", "kind", "data", "binaryData", "type") if key in source
    }
    return {**kept, "metadata": metadata}


def migration_document(name: str, namespace: str, half: JsonObject) -> JsonObject:
    """One half of the migration; `half` is its `sendTo` or `receive`."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"generateName": f"kubevirt-migrate-vm-{name[:40]}-", "namespace": namespace},
        "spec": {"vmiName": name, **half},
    }


def find_named(template_spec: JsonObject) -> list[Named]:
    """The Secrets and ConfigMaps that a VM names, each once."""
    return sorted(set(_walk(template_spec)))


def network_names(vmi: VirtualMachineInstance) -> list[tuple[str, str]]:
    """Namespace and name of each network besides the Pod network that the guest is on."""
    found = []
    for network in vmi.spec.networks:
        if network.multus is not None:
            namespace, slash, name = network.multus.network_name.rpartition("/")
            found.append((namespace if slash else vmi.metadata.namespace, name))
    return found


def _walk(value: Any) -> Iterator[Named]:
    if isinstance(value, list):
        for item in value:
            yield from _walk(item)
    if not isinstance(value, dict):
        return
    for member, key in _SECRETS:
        named = value.get(member)
        if isinstance(named, dict) and isinstance(named.get(key), str) and named[key]:
            yield Named("secrets", named[key])
    config = value.get("configMap")
    if isinstance(config, dict) and isinstance(config.get("name"), str) and config["name"]:
        yield Named("configmaps", config["name"])
    if isinstance(value.get("imagePullSecret"), str) and value["imagePullSecret"]:
        yield Named("secrets", value["imagePullSecret"])
    for item in value.values():
        yield from _walk(item)


def _keep_identity(guest: JsonObject, vmi: VirtualMachineInstance) -> None:
    """The firmware's UUID and the NICs' addresses are those of the run, whose VM made them of its own UID."""
    domain = guest.setdefault("domain", {})
    firmware = vmi.spec.domain.firmware
    if firmware is not None and firmware.uuid:
        domain["firmware"] = {**(domain.get("firmware") or {}), "uuid": firmware.uuid}
    macs = {nic.name: nic.mac_address for nic in vmi.spec.domain.devices.interfaces}
    for nic in (domain.get("devices") or {}).get("interfaces") or ():
        if macs.get(nic.get("name")):
            nic["macAddress"] = macs[nic["name"]]
