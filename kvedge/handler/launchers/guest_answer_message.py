"""What a launcher tells of a guest, in the shape of KubeVirt's answers, and how far a guest is that moves away.

Called by `launcher_door`. Pure. The launcher has made it short; the api role looks at it once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.rpc.launcher_pb2 import (
    DomainStatus,
    GuestFilesystem,
    GuestFilesystems,
    GuestInfo,
    GuestUser,
    GuestUsers,
    LaunchMeasurement,
    Milestones,
    OutgoingMigration,
    OutgoingState,
    SevInfo,
)
from kvedge.runtime.milestones import MOST

# What a launcher may say of its start.
_LONGEST_STEP: Final = 64


def guest_answer(reply: object) -> JsonObject:
    """The answer that a reply stands for."""
    if isinstance(reply, GuestInfo):
        return _info(reply)
    if isinstance(reply, GuestUsers):
        return {"items": [_user(user) for user in reply.users]}
    if isinstance(reply, GuestFilesystems):
        return {"items": [_filesystem(mount) for mount in reply.filesystems]}
    if isinstance(reply, Milestones):
        return trace_answer(reply.unix_ms, {})
    if isinstance(reply, SevInfo):
        return {"pdh": reply.pdh, "certChain": reply.cert_chain}
    if isinstance(reply, LaunchMeasurement):
        return _measurement(reply)
    if isinstance(reply, DomainStatus):
        return _outgoing(reply.outgoing)
    return {}


def trace_answer(launcher: Mapping[str, int], handler: Mapping[str, int]) -> JsonObject:
    """The steps of a start that the two know, each with its time in milliseconds since 1970."""
    return {"launcher": _steps(launcher), "handler": _steps(handler)}


def _steps(found: Mapping[str, int]) -> list[JsonObject]:
    named = sorted((at, step) for step, at in found.items() if len(step) <= _LONGEST_STEP)
    return [{"step": step, "unixMs": at} for at, step in named[:MOST]]


def _outgoing(found: OutgoingMigration) -> JsonObject:
    return {
        "migrationUid": found.migration_uid,
        "state": OutgoingState.Name(found.state).removeprefix("OUTGOING_").capitalize(),
        "totalBytes": found.total_bytes,
        "sentBytes": found.sent_bytes,
        "leftBytes": found.left_bytes,
        "memoryRateBytes": found.memory_rate_bytes,
        "downtimeMs": found.downtime_ms,
    }


def _measurement(found: LaunchMeasurement) -> JsonObject:
    return {
        "measurement": found.measurement,
        "apiMajor": found.api_major,
        "apiMinor": found.api_minor,
        "buildID": found.build_id,
        "policy": found.policy,
        "loaderSHA": found.loader_sha256,
    }


def _info(info: GuestInfo) -> JsonObject:
    system = {
        "name": info.os_name,
        "id": info.os_id,
        "version": info.os_version,
        "versionId": info.os_version_id,
        "prettyName": info.os_pretty_name,
        "kernelRelease": info.kernel_release,
        "kernelVersion": info.kernel_version,
        "machine": info.machine,
    }
    return {
        "guestAgentVersion": info.agent_version,
        "supportedCommands": [{"name": command.name, "enabled": command.enabled} for command in info.commands],
        "hostname": info.hostname,
        "os": {key: value for key, value in system.items() if value},
        "timezone": info.timezone,
        "userList": [_user(user) for user in info.users],
        "fsInfo": {"disks": [_filesystem(mount) for mount in info.filesystems]},
        "fsFreezeStatus": info.fs_freeze_status,
    }


def _user(user: GuestUser) -> JsonObject:
    return {"userName": user.name, "domain": user.domain, "loginTime": user.login_unix_seconds}


def _filesystem(mount: GuestFilesystem) -> JsonObject:
    return {
        "diskName": mount.disk_name,
        "mountPoint": mount.mount_point,
        "fileSystemType": mount.type,
        "usedBytes": mount.used_bytes,
        "totalBytes": mount.total_bytes,
        "disk": [{"serial": disk.serial, "busType": disk.bus_type} for disk in mount.disks],
    }
