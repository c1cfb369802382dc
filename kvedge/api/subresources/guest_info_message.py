"""What `guestosinfo` and its kin answer: what the node's relay passes on from the guest's agent, made safe to show.

Called by guest_calls.py. Touches nothing. Everything in it was said by a guest: only what is known is passed on, and
what is long is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvedge.resources.codec import JsonObject

API_VERSION: Final = "subresources.kubevirt.io/v1"
_TEXTS: Final = ("guestAgentVersion", "hostname", "timezone", "fsFreezeStatus")
_SYSTEM: Final = ("name", "id", "version", "versionId", "prettyName", "kernelRelease", "kernelVersion", "machine")
_PROGRESS: Final = ("totalBytes", "sentBytes", "leftBytes", "memoryRateBytes", "downtimeMs")
_LONGEST: Final = 256
# Keys and chains of certificates, in base64.
_LONGEST_BLOB: Final = 64 * 1024
_STEPS: Final = 32
# As many as a launcher passes on.
_MOST: Final = 256
_MOST_DISKS: Final = 8


def guest_agent_info(found: JsonObject) -> JsonObject:
    """A VirtualMachineInstanceGuestAgentInfo; what is empty is left out."""
    mounts = found.get("fsInfo")
    lists = {
        "supportedCommands": [_command(entry) for entry in _objects(found.get("supportedCommands"), _MOST)],
        "userList": [_user(entry) for entry in _objects(found.get("userList"), _MOST)],
    }
    disks = _objects(mounts.get("disks"), _MOST) if isinstance(mounts, dict) else []
    return {
        "apiVersion": API_VERSION,
        "kind": "VirtualMachineInstanceGuestAgentInfo",
        "metadata": {},
        **_texts(found, _TEXTS),
        **{name: entries for name, entries in lists.items() if entries},
        "os": _texts(_object(found.get("os")), _SYSTEM),
        "fsInfo": {"disks": [_filesystem(entry) for entry in disks]},
    }


def guest_user_list(found: JsonObject) -> JsonObject:
    """A VirtualMachineInstanceGuestOSUserList."""
    items = [_user(entry) for entry in _objects(found.get("items"), _MOST)]
    return {
        "apiVersion": API_VERSION,
        "kind": "VirtualMachineInstanceGuestOSUserList",
        "metadata": {},
        "items": items,
    }


def guest_filesystem_list(found: JsonObject) -> JsonObject:
    """A VirtualMachineInstanceFileSystemList."""
    items = [_filesystem(entry) for entry in _objects(found.get("items"), _MOST)]
    return {
        "apiVersion": API_VERSION,
        "kind": "VirtualMachineInstanceFileSystemList",
        "metadata": {},
        "items": items,
    }


def migration_progress(found: JsonObject) -> JsonObject:
    """A VirtualMachineInstanceMigrationProgress, which KubeVirt does not have."""
    return {
        "apiVersion": API_VERSION,
        "kind": "VirtualMachineInstanceMigrationProgress",
        "metadata": {},
        **_texts(found, ("migrationUid", "state")),
        **{name: _count(found.get(name)) for name in _PROGRESS},
    }


def start_trace(found: JsonObject) -> JsonObject:
    """A VirtualMachineInstanceStartTrace, which KubeVirt does not have: who reached which step when."""
    return {
        "apiVersion": API_VERSION,
        "kind": "VirtualMachineInstanceStartTrace",
        "metadata": {},
        **{who: [_step(entry) for entry in _objects(found.get(who), _STEPS)] for who in ("launcher", "handler")},
    }


def sev_platform_info(found: JsonObject) -> JsonObject:
    """A SEVPlatformInfo."""
    texts = _texts(found, ("pdh", "certChain"), _LONGEST_BLOB)
    return {"apiVersion": API_VERSION, "kind": "SEVPlatformInfo", **texts}


def sev_measurement_info(found: JsonObject) -> JsonObject:
    """A SEVMeasurementInfo; what is zero is left out, as in KubeVirt."""
    counts = {name: _count(found.get(name)) for name in ("apiMajor", "apiMinor", "buildID", "policy")}
    return {
        "apiVersion": API_VERSION,
        "kind": "SEVMeasurementInfo",
        **_texts(found, ("measurement", "loaderSHA")),
        **{name: count for name, count in counts.items() if count},
    }


def _step(entry: JsonObject) -> JsonObject:
    return {"step": "", **_texts(entry, ("step",)), "unixMs": _count(entry.get("unixMs"))}


def _command(entry: JsonObject) -> JsonObject:
    return {**_texts(entry, ("name",)), "enabled": entry.get("enabled") is True}


def _user(entry: JsonObject) -> JsonObject:
    seconds = entry.get("loginTime")
    since = {"loginTime": seconds} if isinstance(seconds, int | float) and seconds else {}
    return {"userName": "", **_texts(entry, ("userName", "domain")), **since}


def _filesystem(entry: JsonObject) -> JsonObject:
    disks = [_texts(disk, ("serial", "busType")) for disk in _objects(entry.get("disk"), _MOST_DISKS)]
    empty = {"diskName": "", "mountPoint": "", "fileSystemType": ""}
    return {
        **empty,
        **_texts(entry, tuple(empty)),
        "usedBytes": _count(entry.get("usedBytes")),
        "totalBytes": _count(entry.get("totalBytes")),
        **({"disk": disks} if disks else {}),
    }


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object, most: int) -> list[JsonObject]:
    return [entry for entry in value[:most] if isinstance(entry, dict)] if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _texts(found: Mapping[str, Any], names: tuple[str, ...], longest: int = _LONGEST) -> JsonObject:
    values = {name: found.get(name) for name in names}
    return {name: value[:longest] for name, value in values.items() if isinstance(value, str) and value}
