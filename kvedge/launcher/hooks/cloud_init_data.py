"""cloud-init's files as KubeVirt's CloudInitData, in JSON, and back: what hook sidecars get and give.

Called by `hook_calls`. Pure. The names of members are those of KubeVirt's Go type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

CloudInitFiles = Mapping[str, bytes]

_NO_CLOUD: Final = ("meta-data", "user-data", "network-config")
_CONFIG_DRIVE: Final = (
    "openstack/latest/meta_data.json",
    "openstack/latest/user_data",
    "openstack/latest/network_data.json",
)
# As much as a Secret may hold.
_LARGEST: Final = 1 << 20


def data_of(files: CloudInitFiles, volume: str) -> bytes:
    """The files as CloudInitData.

    Raises:
        ValueError: when they are no text.
    """
    meta, user, network = _names(files)
    is_config_drive = meta == _CONFIG_DRIVE[0]
    metadata = json.loads(files[meta])
    document = {
        "DataSource": "configDrive" if is_config_drive else "noCloud",
        "NoCloudMetaData": None if is_config_drive else metadata,
        "ConfigDriveMetaData": metadata if is_config_drive else None,
        "UserData": _text(files.get(user, b"")),
        "NetworkData": _text(files.get(network, b"")),
        "DevicesData": metadata.get("devices"),
        "VolumeName": volume,
    }
    return json.dumps(document).encode()


def no_cloud_of(files: CloudInitFiles) -> bytes:
    """User and network data as a CloudInitNoCloudSource, for hooks that know nothing else. Raises as `data_of`."""
    _, user, network = _names(files)
    texts = {"userData": _text(files.get(user, b"")), "networkData": _text(files.get(network, b""))}
    return json.dumps({name: text for name, text in texts.items() if text}).encode()


def files_of(before: CloudInitFiles, data: bytes, no_cloud: bytes) -> CloudInitFiles:
    """The files that a sidecar's answer stands for: of its CloudInitData where that is whole, as in KubeVirt.

    Raises:
        ValueError: when the answer cannot be read.
    """
    meta, user, network = _names(before)
    answer = _object(data) if data else {}
    metadata = answer.get("ConfigDriveMetaData" if meta == _CONFIG_DRIVE[0] else "NoCloudMetaData")
    if answer.get("UserData") and isinstance(metadata, dict):
        made = {meta: json.dumps(metadata, sort_keys=True).encode()}
        user_data, network_data = answer["UserData"], answer.get("NetworkData")
    else:
        legacy = _object(no_cloud) if no_cloud else {}
        made = {meta: before[meta]}
        user_data, network_data = legacy.get("userData"), legacy.get("networkData")
    # NoCloud needs the file, be it empty.
    made |= {user: _bytes(user_data)} if user_data or user in before else {}
    made |= {network: _bytes(network_data)} if network_data else {}
    return made


def _names(files: CloudInitFiles) -> tuple[str, str, str]:
    return _CONFIG_DRIVE if _CONFIG_DRIVE[0] in files else _NO_CLOUD


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        # Compressed data would come back damaged.
        raise ValueError("user or network data is no UTF-8, of which hook sidecars cannot be told") from error


def _bytes(text: object) -> bytes:
    if text is not None and not isinstance(text, str):
        raise ValueError("user or network data that is no text")
    data = (text or "").encode()
    if len(data) > _LARGEST:
        raise ValueError(f"user or network data of more than {_LARGEST >> 20} MiB")
    return data


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("what is no JSON") from error
    if not isinstance(found, dict):
        raise ValueError("JSON that is no object")
    return found
