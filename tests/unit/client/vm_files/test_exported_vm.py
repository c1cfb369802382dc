"""What of a VM belongs to the place that it comes from, and what else it needs."""

from __future__ import annotations

import copy

import pytest

from kvedge.client.vm_files.exported_vm import (
    LastingVolume,
    Needed,
    find_lasting,
    find_left_out,
    find_needed,
    is_portable,
    strip_object,
    strip_vm,
)
from kvedge.resources.codec import JsonObject
from tests.unit.client.vm_files.archives import VM


def vm_with(*volumes: JsonObject, **more: JsonObject) -> JsonObject:
    vm = copy.deepcopy(VM)
    vm["spec"]["template"]["spec"]["volumes"] = list(volumes)
    vm["spec"]["template"]["spec"] |= more
    return vm


def test_what_the_server_has_written_stays_there() -> None:
    vm = copy.deepcopy(VM)
    vm["status"] = {"ready": True}
    vm["metadata"] |= {"uid": "u", "namespace": "default", "resourceVersion": "1", "finalizers": ["f"]}
    vm["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "stays"}
    assert strip_vm(vm) == {**VM, "metadata": {**VM["metadata"], "annotations": {"mine": "stays"}}}


def test_a_memory_dump_is_none_of_its_disks() -> None:
    vm = vm_with({"name": "dump", "memoryDump": {"claimName": "dump"}})
    assert find_lasting(vm) == []
    assert strip_vm(vm)["spec"]["template"]["spec"]["volumes"] == []


def test_its_disks_are_its_claims() -> None:
    assert find_lasting(VM) == [LastingVolume("root", "web-root", True), LastingVolume("data", "data", False)]


def test_each_object_that_it_names_is_found_once() -> None:
    vm = vm_with(
        {"name": "a", "cloudInitNoCloud": {"secretRef": {"name": "user"}, "networkDataSecretRef": {"name": "net"}}},
        {"name": "b", "cloudInitConfigDrive": {"secretRef": {"name": "user"}}},
        {"name": "c", "secret": {"secretName": "files"}},
        {"name": "d", "configMap": {"name": "settings"}},
        {"name": "e", "sysprep": {"configMap": {"name": "answers"}}},
        {"name": "f", "sysprep": {"secret": {"name": "unattended"}}},
        accessCredentials=[{"sshPublicKey": {"source": {"secret": {"secretName": "keys"}}}}],
    )
    assert find_needed(vm) == [
        Needed("Secret", "user"),
        Needed("Secret", "net"),
        Needed("Secret", "files"),
        Needed("ConfigMap", "settings"),
        Needed("ConfigMap", "answers"),
        Needed("Secret", "unattended"),
        Needed("Secret", "keys"),
    ]


@pytest.mark.parametrize(
    ("volume", "says"),
    [
        ({"name": "v", "emptyDisk": {"capacity": "1Gi"}}, "an emptyDisk begins empty"),
        ({"name": "v", "hostDisk": {"path": "/disk"}}, "the file /disk of its node is not exported"),
        ({"name": "v", "ephemeral": {}}, "below an ephemeral volume"),
        ({"name": "v", "containerDisk": {"image": "alpine"}}, "the image alpine is named, not contained"),
        ({"name": "v", "memoryDump": {"claimName": "dump"}}, "a memory dump is not exported"),
    ],
)
def test_a_volume_that_is_not_exported_is_named(volume: JsonObject, says: str) -> None:
    (text,) = find_left_out(vm_with(volume))
    assert text.startswith("volume v: ")
    assert says in text


def test_a_state_beside_the_disks_is_named() -> None:
    firmware = {"bootloader": {"efi": {"persistent": True}}}
    vm = vm_with(domain={"devices": {"tpm": {"persistent": True}}, "firmware": firmware})
    vm["spec"]["instancetype"] = {"name": "small"}
    tpm, efi, instancetype = find_left_out(vm)
    assert "the TPM's state is not exported" in tpm
    assert "the EFI variables are not exported" in efi
    assert instancetype == "the instancetype small is named, not contained"


def test_a_vm_does_not_name_copies_of_types_that_stay_behind() -> None:
    vm = vm_with()
    vm["spec"]["instancetype"] = {"name": "small", "revisionName": "web-small-v1beta1-1-1"}
    assert strip_vm(vm)["spec"]["instancetype"] == {"name": "small"}


def test_a_secret_keeps_its_content_alone() -> None:
    secret = {"type": "Opaque", "metadata": {"name": "s", "uid": "u", "ownerReferences": []}, "data": {"a": "eA=="}}
    assert strip_object(secret, "Secret") == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "type": "Opaque",
        "data": {"a": "eA=="},
    }
    assert is_portable(secret)
    assert not is_portable({"type": "kubernetes.io/service-account-token"})
