"""The documents that cloud-init finds in a guest: NoCloud's and the config drive's.

Pure. Called by the launcher when it prepares a VMI's volumes; the result goes to iso.py. User and network data are the
user's own text and pass through unread: cloud-init, not kvedge, knows what is right in them. Touches nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.identity_xml import domain_uuid
from kvedge.resources.access_credentials import read_public_keys
from kvedge.resources.identity import guest_hostname
from kvedge.resources.types.devices import Disk, DiskTarget
from kvedge.resources.types.guest_nics import interface_mac
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import CloudInit, Volume

# The labels by which cloud-init recognizes its data sources.
NO_CLOUD_LABEL: Final = "cidata"
CONFIG_DRIVE_LABEL: Final = "config-2"

# Keys of a Secret: KubeVirt takes both spellings.
_USER_KEYS: Final = ("userdata", "userData")
_NETWORK_KEYS: Final = ("networkdata", "networkData")
_CONFIG_DRIVE_META: Final = "openstack/latest/meta_data.json"
# OpenStack's words for where a disk is found, by the bus of a VMI.
_BUSES: Final = {"virtio": "pci"}
_INSTANCE_TYPES: Final = ("kubevirt.io/instancetype-name", "kubevirt.io/cluster-instancetype-name")


class _Source(NamedTuple):
    """One of the two kinds of data: what the volume says of it, and where in the VMI that is."""

    field: str
    plain: str
    encoded: str
    secret: str | None
    keys: tuple[str, ...]


def documents(
    vmi: VirtualMachineInstance,
    volume: Volume,
    secrets: Mapping[str, bytes],
    ssh_keys: Iterable[bytes] = (),
    host_devices: Sequence[Mapping[str, object]] = (),
) -> dict[str, bytes]:
    """The files of a cloud-init volume, by their path in the image.

    `secrets` is what the Secrets that the volume refers to hold, by key (`userdata`, `networkdata` or KubeVirt's other
    spelling of them); it is not asked for anything when the volume refers to none. `ssh_keys` are public keys for the
    guest's default user; `host_devices` is what a config drive tells of tagged devices of the node, functions of NICs
    among them.

    Raises:
        ConversionError: when the volume is none of cloud-init, or its data cannot be read.
    """
    if volume.cloud_init_no_cloud is not None:
        files = _no_cloud(vmi, _field(vmi, volume, "cloudInitNoCloud"), volume.cloud_init_no_cloud, secrets)
        return _with_keys(files, "meta-data", "public-keys", ssh_keys)
    if volume.cloud_init_config_drive is not None:
        devices = [*list_tagged_nics(vmi), *list_tagged_disks(vmi), *host_devices]
        field = _field(vmi, volume, "cloudInitConfigDrive")
        files = _config_drive(vmi, field, volume.cloud_init_config_drive, secrets, devices)
        return _with_keys(files, _CONFIG_DRIVE_META, "public_keys", ssh_keys)
    raise ConversionError(_field(vmi, volume, ""), "is no cloud-init volume", "use cloudInitNoCloud")


def _with_keys(files: dict[str, bytes], meta_data: str, field: str, ssh_keys: Iterable[bytes]) -> dict[str, bytes]:
    """The files with the keys in their metadata, numbered as KubeVirt numbers them."""
    texts = [text for key in ssh_keys if (text := key.decode(errors="replace").strip())]
    if any(read_public_keys(text) is None for text in texts):
        # A user who may make VMs, but read no Secrets, would read any other Secret of the namespace in the guest.
        raise ConversionError(
            "spec.accessCredentials", "names a Secret that holds something else than SSH public keys", "take it out"
        )
    if not texts:
        return files
    numbered = {str(number): text for number, text in enumerate(texts)}
    return files | {meta_data: _json(json.loads(files[meta_data]) | {field: numbered})}


def volume_label(volume: Volume) -> str:
    """The label of the ISO image that a cloud-init volume becomes."""
    return CONFIG_DRIVE_LABEL if volume.cloud_init_config_drive is not None else NO_CLOUD_LABEL


def _no_cloud(
    vmi: VirtualMachineInstance, field: str, source: CloudInit, secrets: Mapping[str, bytes]
) -> dict[str, bytes]:
    meta = {
        "instance-type": _instance_type(vmi),
        "instance-id": domain_uuid(vmi),
        "local-hostname": _hostname(vmi),
    }
    # Without a user-data file NoCloud takes the whole image for none of its own, so an empty one is written.
    files = {"meta-data": _json(meta), "user-data": _user_data(field, source, secrets) or b""}
    network = _network_data(field, source, secrets)
    return files if network is None else files | {"network-config": network}


def _config_drive(
    vmi: VirtualMachineInstance,
    field: str,
    source: CloudInit,
    secrets: Mapping[str, bytes],
    devices: Sequence[Mapping[str, object]],
) -> dict[str, bytes]:
    meta = {
        "instance_type": _instance_type(vmi),
        "instance_id": f"{vmi.metadata.name}.{vmi.metadata.namespace}",
        "hostname": _hostname(vmi),
        "uuid": domain_uuid(vmi),
    }
    files = {_CONFIG_DRIVE_META: _json(meta | {"devices": devices or None})}
    user = _user_data(field, source, secrets)
    network = _network_data(field, source, secrets)
    if user is not None:
        files["openstack/latest/user_data"] = user
    if network is not None:
        files["openstack/latest/network_data.json"] = network
    return files


def list_tagged_nics(vmi: VirtualMachineInstance) -> list[dict[str, object]]:
    """The NICs that have a tag, as OpenStack tells guests of them: by their MAC, and by a PCI address that was asked
    for. libvirt chooses the other addresses when the domain is defined, which is after this image is written. Functions
    of cards are told with the other devices of the node."""
    return [
        {
            "type": "nic",
            "bus": "pci",
            **({"address": interface.pci_address} if interface.pci_address else {}),
            "mac": interface_mac(vmi, interface),
            "tags": [interface.tag],
        }
        for interface in vmi.spec.domain.devices.interfaces
        if interface.tag and interface.state != "absent" and interface.sriov is None
    ]


def list_tagged_disks(vmi: VirtualMachineInstance) -> list[dict[str, object]]:
    """The disks that have a tag, as OpenStack tells guests of them: by their bus, and by serial number and PCI address
    where the VMI has them. KubeVirt's list has none, though the field's description promises it."""
    return [_describe_disk(disk) for disk in vmi.spec.domain.devices.disks if disk.tag]


def _describe_disk(disk: Disk) -> dict[str, object]:
    target = disk.disk or disk.cdrom or disk.lun or DiskTarget()
    described: dict[str, object] = {"type": "disk", "bus": _BUSES.get(target.bus, target.bus), "tags": [disk.tag]}
    if disk.serial:
        described["serial"] = disk.serial
    if disk.disk is not None and disk.disk.pci_address:
        described["address"] = disk.disk.pci_address
    return described


def _user_data(field: str, source: CloudInit, secrets: Mapping[str, bytes]) -> bytes | None:
    reference = source.secret_ref.name if source.secret_ref is not None else None
    return _data(
        _Source(f"{field}.userData", source.user_data, source.user_data_base64, reference, _USER_KEYS), secrets
    )


def _network_data(field: str, source: CloudInit, secrets: Mapping[str, bytes]) -> bytes | None:
    reference = source.network_data_secret_ref.name if source.network_data_secret_ref is not None else None
    return _data(
        _Source(f"{field}.networkData", source.network_data, source.network_data_base64, reference, _NETWORK_KEYS),
        secrets,
    )


def _data(source: _Source, secrets: Mapping[str, bytes]) -> bytes | None:
    if source.plain:
        return source.plain.encode()
    if source.encoded:
        return _decode(source)
    if source.secret is None:
        return None
    for key in source.keys:
        if key in secrets:
            return secrets[key]
    raise ConversionError(
        source.field, f"the Secret {source.secret} has no key {source.keys[0]}", "add the key to the Secret"
    )


def _decode(source: _Source) -> bytes:
    try:
        # Line breaks are what `base64` itself prints; anything else that does not belong is an error.
        return base64.b64decode("".join(source.encoded.split()), validate=True)
    except ValueError as error:
        raise ConversionError(
            f"{source.field}Base64", "is not a valid base64 value", "encode it with: base64 -w0"
        ) from error


def _hostname(vmi: VirtualMachineInstance) -> str:
    return guest_hostname(vmi.spec.hostname, vmi.metadata.name)


def _instance_type(vmi: VirtualMachineInstance) -> str | None:
    annotations = vmi.metadata.annotations
    return next((annotations[name] for name in _INSTANCE_TYPES if name in annotations), None)


def _json(document: Mapping[str, object]) -> bytes:
    """The document as KubeVirt writes it, which guests' scripts and its own tests compare as text: no blanks."""
    given = {key: value for key, value in document.items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode()


def _field(vmi: VirtualMachineInstance, volume: Volume, source: str) -> str:
    index = next((i for i, candidate in enumerate(vmi.spec.volumes) if candidate.name == volume.name), 0)
    return f"spec.volumes[{index}]" + (f".{source}" if source else "")
