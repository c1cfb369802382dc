"""What a VM becomes on another box: the same guest, on claims that come with it."""

from __future__ import annotations

from typing import Any

from kvedge.client.boxes.moved_vm import MADE_FOR, Named, claim_document, copied_document, find_named, vm_document
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

UID = "5f0c2a1e-0000-4000-8000-000000000001"
SPEC: dict[str, Any] = {
    "domain": {
        "memory": {"guest": "1Gi"},
        "devices": {
            "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
            "interfaces": [{"name": "default", "masquerade": {}}],
        },
    },
    "networks": [{"name": "default", "pod": {}}],
    "volumes": [
        {"name": "root", "dataVolume": {"name": "disk"}},
        {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "users"}}},
        {"name": "files", "configMap": {"name": "shop"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
    ],
    "accessCredentials": [{"sshPublicKey": {"source": {"secret": {"secretName": "keys"}}}}],
}
VM: dict[str, Any] = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "vm-uid",
        "resourceVersion": "7",
        "labels": {"app": "web"},
        "annotations": {"note": "x", "kvedge.io/moves-to": "old"},
    },
    "spec": {
        "running": True,
        "dataVolumeTemplates": [{"metadata": {"name": "disk"}, "spec": {}}],
        "template": {"metadata": {}, "spec": SPEC},
    },
    "status": {"created": True},
}


def run() -> VirtualMachineInstance:
    spec = {
        **SPEC,
        "domain": {
            **SPEC["domain"],
            "firmware": {"uuid": "aaaa"},
            "devices": {
                **SPEC["domain"]["devices"],
                "interfaces": [{"name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:01"}],
            },
        },
    }
    return decode(VirtualMachineInstance, {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})


def test_the_vm_waits_for_its_guest_and_is_known_as_before() -> None:
    before = repr(VM)
    made = vm_document(VM, decode(VirtualMachine, VM), run(), UID)
    assert repr(VM) == before
    assert made["metadata"] == {
        "name": "web",
        "namespace": "shop",
        "labels": {"app": "web", MADE_FOR: UID},
        "annotations": {"note": "x", "kubevirt.io/restore-run-strategy": "Always"},
    }
    spec = made["spec"]
    assert (spec["runStrategy"], "running" in spec, "dataVolumeTemplates" in spec) == ("WaitAsReceiver", False, False)
    guest = spec["template"]["spec"]
    assert guest["domain"]["firmware"] == {"uuid": "aaaa"}
    assert guest["domain"]["devices"]["interfaces"][0]["macAddress"] == "02:00:00:00:00:01"
    # Nothing fills the disk with something else there.
    assert guest["volumes"][0] == {"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}


def test_a_claim_is_as_large_and_empty() -> None:
    document = {
        "metadata": {"name": "disk", "namespace": "shop", "uid": "u", "annotations": {"bound": "yes"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "3Gi"}},
            "volumeMode": "Block",
            "volumeName": "pvc-1",
            "storageClassName": "fast",
            "dataSource": {"kind": "PersistentVolumeClaim", "name": "golden"},
        },
    }
    claim = decode(PersistentVolumeClaim, document)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}, "volumeMode": "Block"}
    assert claim_document(claim, None, UID)["spec"] == spec
    assert claim_document(claim, "slow", UID)["spec"] == {**spec, "storageClassName": "slow"}


def test_what_a_vm_names_is_found_once_each() -> None:
    assert find_named(SPEC) == [Named("configmaps", "shop"), Named("secrets", "keys"), Named("secrets", "users")]


def test_a_copied_secret_keeps_its_data_and_no_identity() -> None:
    source = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys", "namespace": "shop", "uid": "u", "ownerReferences": [{"uid": "x"}]},
        "type": "Opaque",
        "data": {"key": "eA=="},
    }
    made = copied_document(source, UID)
    assert made["metadata"] == {"name": "keys", "namespace": "shop", "labels": {MADE_FOR: UID}}
    assert (made["type"], made["data"]) == ("Opaque", {"key": "eA=="})
