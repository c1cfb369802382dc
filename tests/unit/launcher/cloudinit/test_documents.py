"""What cloud-init finds in a guest."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import ANY

import pytest

from kvedge.launcher.cloudinit.documents import documents, volume_label
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with

DOMAIN = {"firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"}}


def _vmi(volume: dict[str, Any], **spec: Any) -> VirtualMachineInstance:
    plain = {
        "domain": DOMAIN,
        "volumes": [{"name": "root", "emptyDisk": {"capacity": "1Gi"}}, {"name": "init", **volume}],
    }
    return vmi_with({**plain, **spec}, name="web.edge", namespace="shop", uid="the-uid")


def _documents(vmi: VirtualMachineInstance, secrets: dict[str, bytes] | None = None) -> dict[str, bytes]:
    return documents(vmi, vmi.spec.volumes[1], secrets or {})


def test_no_cloud_data_has_meta_data_in_json_and_the_users_text_unchanged() -> None:
    vmi = _vmi({"cloudInitNoCloud": {"userData": "#cloud-config\nä: 1\n", "networkData": "version: 2\n"}})
    files = _documents(vmi)
    assert json.loads(files.pop("meta-data")) == {
        "instance-id": "5d307ca9-b3ef-428c-8861-06e72d69f223",
        "local-hostname": "web",
    }
    assert files == {"user-data": "#cloud-config\nä: 1\n".encode(), "network-config": b"version: 2\n"}
    assert volume_label(vmi.spec.volumes[1]) == "cidata"


def test_a_config_drive_has_the_folders_of_openstack() -> None:
    vmi = _vmi({"cloudInitConfigDrive": {"userData": "#!/bin/sh\n", "networkData": "{}"}}, hostname="shopfront")
    files = _documents(vmi)
    assert json.loads(files.pop("openstack/latest/meta_data.json")) == {
        "hostname": "shopfront",
        "instance_id": "web.edge.shop",
        "uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223",
    }
    assert files == {"openstack/latest/user_data": b"#!/bin/sh\n", "openstack/latest/network_data.json": b"{}"}
    assert volume_label(vmi.spec.volumes[1]) == "config-2"


def test_a_config_drive_tells_the_guest_of_its_tagged_nics_by_their_macs() -> None:
    nics = [
        {"name": "default", "bridge": {}},
        {"name": "lan", "bridge": {}, "macAddress": "52-54-00-00-00-0A", "tag": "uplink"},
        {"name": "dmz", "bridge": {}, "tag": "dmz", "pciAddress": "0000:81:01.0"},
        {"name": "gone", "bridge": {}, "tag": "gone", "state": "absent"},
        {"name": "function", "sriov": {}, "tag": "told with the devices of the node"},
    ]
    vmi = _vmi({"cloudInitConfigDrive": {"userData": ""}}, domain={**DOMAIN, "devices": {"interfaces": nics}})
    found = json.loads(_documents(vmi)["openstack/latest/meta_data.json"])["devices"]
    assert found == [
        {"type": "nic", "bus": "pci", "mac": "52:54:00:00:00:0a", "tags": ["uplink"]},
        {"type": "nic", "bus": "pci", "mac": ANY, "tags": ["dmz"], "address": "0000:81:01.0"},
    ]


def test_the_metadata_is_written_as_kubevirt_writes_it() -> None:
    """Its functional tests compare the text."""
    nic = {"name": "default", "masquerade": {}, "macAddress": "52:54:00:00:00:0a", "tag": "up"}
    nic["pciAddress"] = "0000:01:00.0"
    vmi = _vmi({"cloudInitConfigDrive": {"userData": "x"}}, domain={**DOMAIN, "devices": {"interfaces": [nic]}})
    vmi.metadata.annotations["kubevirt.io/instancetype-name"] = "small"
    text = _documents(vmi)["openstack/latest/meta_data.json"].decode()
    keys = [pair[0] for pair in json.loads(text, object_pairs_hook=list)]
    assert keys == ["instance_type", "instance_id", "hostname", "uuid", "devices"]
    device = '{"type":"nic","bus":"pci","address":"0000:01:00.0","mac":"52:54:00:00:00:0a","tags":["up"]}'
    assert text.endswith(f'"devices":[{device}]}}')


def test_a_config_drive_tells_the_guest_of_its_tagged_disks_by_their_serial_numbers() -> None:
    disks = [
        {"name": "web", "disk": {"bus": "virtio"}},
        {"name": "data", "disk": {"bus": "virtio"}, "tag": "database", "serial": "D1"},
        {"name": "fixed", "disk": {"bus": "virtio", "pciAddress": "0000:81:02.0"}, "tag": "log"},
        {"name": "tape", "lun": {"bus": "scsi"}, "tag": "tape"},
        {"name": "cd", "cdrom": {"bus": "sata"}, "tag": "setup"},
    ]
    nics = [{"name": "default", "bridge": {}, "macAddress": "52:54:00:00:00:0a", "tag": "uplink"}]
    devices = {"disks": disks, "interfaces": nics}
    vmi = _vmi({"cloudInitConfigDrive": {"userData": ""}}, domain={**DOMAIN, "devices": devices})
    found = json.loads(_documents(vmi)["openstack/latest/meta_data.json"])["devices"]
    assert found == [
        {"type": "nic", "bus": "pci", "mac": "52:54:00:00:00:0a", "tags": ["uplink"]},
        {"type": "disk", "bus": "pci", "serial": "D1", "tags": ["database"]},
        {"type": "disk", "bus": "pci", "address": "0000:81:02.0", "tags": ["log"]},
        {"type": "disk", "bus": "scsi", "tags": ["tape"]},
        {"type": "disk", "bus": "sata", "tags": ["setup"]},
    ]


def test_a_config_drive_tells_the_guest_of_its_tagged_host_devices_after_the_others() -> None:
    disks = [{"name": "data", "disk": {"bus": "virtio"}, "tag": "database"}]
    card = {"type": "hostdev", "bus": "pci", "address": "0000:01:00.0", "tags": ["training"], "numaNode": 0}
    for volume, file in (
        ("cloudInitConfigDrive", "openstack/latest/meta_data.json"),
        ("cloudInitNoCloud", "meta-data"),
    ):
        vmi = _vmi({volume: {"userData": ""}}, domain={**DOMAIN, "devices": {"disks": disks}})
        found = json.loads(documents(vmi, vmi.spec.volumes[1], {}, (), [card])[file])
        # As in KubeVirt, NoCloud tells of no devices.
        assert ("devices" in found) == (volume == "cloudInitConfigDrive")
        assert found.get("devices", [card])[-1] == card


@pytest.mark.parametrize(
    ("volume", "file", "field"),
    [
        ("cloudInitNoCloud", "meta-data", "public-keys"),
        ("cloudInitConfigDrive", "openstack/latest/meta_data.json", "public_keys"),
    ],
)
def test_ssh_keys_stand_in_the_metadata_by_their_number(volume: str, file: str, field: str) -> None:
    vmi = _vmi({volume: {"userData": "#cloud-config\n"}})
    without = json.loads(_documents(vmi)[file])
    files = documents(vmi, vmi.spec.volumes[1], {}, [b"ssh-rsa AAAAB3 a\n", b"\n", b"ssh-ed25519 AAAAC3"])
    assert json.loads(files[file]) == without | {field: {"0": "ssh-rsa AAAAB3 a", "1": "ssh-ed25519 AAAAC3"}}


@pytest.mark.parametrize(
    "content",
    [
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        b'{"auths": {}}',
        b"hunter2",
        b"ssh-rsa AAAAB3 a\npassword",
    ],
)
def test_a_secret_that_holds_something_else_than_public_keys_does_not_come_into_the_guest(content: bytes) -> None:
    vmi = _vmi({"cloudInitNoCloud": {"userData": "#cloud-config\n"}})
    with pytest.raises(ConversionError, match="accessCredentials"):
        documents(vmi, vmi.spec.volumes[1], {}, [content])


@pytest.mark.parametrize(
    "content",
    [
        b"# of Ann\necdsa-sha2-nistp256 AAAAE2VjZHNh ann@host\n\nssh-ed25519 AAAAC3Nz bo\n",
        b'from="10.0.0.0/8",command="echo a b" ssh-rsa AAAAB3Nz== c d',
        b"sk-ssh-ed25519@openssh.com AAAAGnNr key",
    ],
)
def test_whatever_stands_in_authorized_keys_is_taken(content: bytes) -> None:
    vmi = _vmi({"cloudInitNoCloud": {"userData": "#cloud-config\n"}})
    files = documents(vmi, vmi.spec.volumes[1], {}, [content])
    assert json.loads(files["meta-data"])["public-keys"] == {"0": content.decode().strip()}


def test_no_cloud_without_user_data_still_has_the_file_that_cloud_init_looks_for() -> None:
    files = _documents(_vmi({"cloudInitNoCloud": {"networkData": "version: 2\n"}}))
    assert files["user-data"] == b""


def test_a_config_drive_without_network_data_has_no_file_for_it() -> None:
    assert set(_documents(_vmi({"cloudInitConfigDrive": {"userData": "x"}}))) == {
        "openstack/latest/meta_data.json",
        "openstack/latest/user_data",
    }


def test_base64_data_is_decoded_also_when_it_is_wrapped() -> None:
    vmi = _vmi({"cloudInitNoCloud": {"userDataBase64": "I2Nsb3Vk\nLWNvbmZpZwo=\n", "networkDataBase64": "AP8="}})
    files = _documents(vmi)
    assert files["user-data"] == b"#cloud-config\n"
    assert files["network-config"] == b"\x00\xff"


@pytest.mark.parametrize("text", ["not base64!", "abc", "I2Nsb3Vk*", "Zür"])
def test_broken_base64_is_refused_by_its_field_without_repeating_the_data(text: str) -> None:
    with pytest.raises(ConversionError) as caught:
        _documents(_vmi({"cloudInitNoCloud": {"userDataBase64": text}}))
    assert caught.value.field == "spec.volumes[1].cloudInitNoCloud.userDataBase64"
    assert text not in str(caught.value)


@pytest.mark.parametrize("spelling", [("userdata", "networkdata"), ("userData", "networkData")])
def test_data_of_secrets_is_found_under_both_spellings_of_its_key(spelling: tuple[str, str]) -> None:
    vmi = _vmi({"cloudInitNoCloud": {"secretRef": {"name": "s"}, "networkDataSecretRef": {"name": "n"}}})
    user, network = spelling
    files = _documents(vmi, {user: b"from the secret", network: b"net"})
    assert (files["user-data"], files["network-config"]) == (b"from the secret", b"net")


def test_a_secret_without_the_key_is_refused_by_name_and_shows_no_other_key() -> None:
    vmi = _vmi({"cloudInitConfigDrive": {"secretRef": {"name": "passwords"}}})
    with pytest.raises(ConversionError, match=r"Secret passwords has no key userdata") as caught:
        _documents(vmi, {"private": b"hush"})
    assert "hush" not in str(caught.value)
    assert "private" not in str(caught.value)


def test_secrets_are_not_looked_at_when_the_volume_refers_to_none() -> None:
    files = _documents(
        _vmi({"cloudInitNoCloud": {"userData": "mine"}}), {"userdata": b"other", "networkdata": b"other"}
    )
    assert files["user-data"] == b"mine"
    assert "network-config" not in files


def test_the_instance_type_is_told_when_the_vmi_was_made_of_one() -> None:
    vmi = _vmi({"cloudInitNoCloud": {"userData": "x"}})
    vmi.metadata.annotations["kubevirt.io/cluster-instancetype-name"] = "u1.small"
    assert json.loads(_documents(vmi)["meta-data"])["instance-type"] == "u1.small"


def test_a_volume_that_is_no_cloud_init_is_refused() -> None:
    vmi = _vmi({"cloudInitNoCloud": {"userData": "x"}})
    with pytest.raises(ConversionError, match=r"spec\.volumes\[0\]"):
        documents(vmi, vmi.spec.volumes[0], {})
