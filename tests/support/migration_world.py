"""What the steps of a migration work on, in memory: a VMI on a server, caches of it, launchers, and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from kvedge.handler.launchers.launcher_connections import LauncherCallError
from kvedge.handler.launchers.sync_plan import LauncherView
from kvedge.kube.errors import Conflict
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import encode
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import patched, vmi_of, vmi_with

KEY = ("default", "web")
UID = "m-1"
HERE, THERE = "node-a", "node-b"
ADDRESS = "10.0.0.2:8443"


def moving_vmi(
    node: str = HERE, status: dict[str, Any] | None = None, deleted: str | None = None, **state: Any
) -> VirtualMachineInstance:
    """A VMI that runs on `node`, and is handed over to move from HERE to THERE; `state` is of its migration."""
    found = {"migrationUid": UID, "sourceNode": HERE, "targetNode": THERE, **state}
    return vmi_with(
        {"domain": {"memory": {"guest": "1Gi"}, "devices": {}}},
        {
            "phase": "Running",
            "nodeName": node,
            "activePods": {"pod-a": HERE, "pod-b": THERE},
            "migrationState": found,
            **(status or {}),
        },
        uid="u-1",
        resourceVersion="1",
        deletionTimestamp=deleted,
        labels={"kubevirt.io/nodeName": node, "kubevirt.io/migrationTargetNodeName": THERE},
    )


def copying_vmi(mode: str = "Filesystem", size: int = 24 << 20, **state: Any) -> VirtualMachineInstance:
    """As :func:`moving_vmi`, with a disk `data` whose claim `old` becomes `new`, of that mode."""
    document = encode(moving_vmi(**state))
    document["spec"]["domain"]["devices"]["disks"] = [{"name": "data", "disk": {"bus": "virtio"}}]
    document["spec"]["volumes"] = [{"name": "data", "dataVolume": {"name": "old"}}]
    source, destination = (
        {"claimName": name, "volumeMode": kind} for name, kind in (("old", "Filesystem"), ("new", mode))
    )
    moved = {"volumeName": "data", "sourcePVCInfo": source, "destinationPVCInfo": destination}
    entry = {"name": "data", "target": "vda", "size": size, "persistentVolumeClaimInfo": source}
    document["status"] |= {
        "migratedVolumes": [moved],
        "volumeStatus": [entry],
        "conditions": [{"type": "VolumesChange", "status": "True"}, {"type": "Ready", "status": "True"}],
    }
    return vmi_of(document)


def exchanged_vmi(**state: Any) -> VirtualMachineInstance:
    """As :func:`copying_vmi`, once the guest has the other claim."""
    document = encode(copying_vmi(**state))
    document["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "new"}}]
    return vmi_of(document)


class Server:
    """One VMI; what is written against another version than it has is refused."""

    def __init__(self, vmi: VirtualMachineInstance) -> None:
        self.vmi = vmi
        self.writes: list[dict[str, Any]] = []

    def patch(self, _kind: object, _namespace: str, _name: str, patch: MergePatch) -> VirtualMachineInstance:
        version = patch.body["metadata"]["resourceVersion"]
        if version != self.vmi.metadata.resource_version:
            raise Conflict(409, "Conflict", "it has changed")
        self.writes.append(patch.body)
        document = patched(encode(self.vmi), patch.body)
        document["metadata"]["resourceVersion"] = str(int(version) + 1)
        self.vmi = vmi_of(document)
        return self.vmi

    def change(self, **state: Any) -> VirtualMachineInstance:
        """Somebody else writes into the migration's state."""
        body = {"metadata": {"resourceVersion": self.vmi.metadata.resource_version}}
        return self.patch(None, "", "", MergePatch({**body, "status": {"migrationState": state}}))


class Cache:
    """What an informer knows: nothing of other versions than it was told."""

    def __init__(self, vmi: VirtualMachineInstance | None = None) -> None:
        self.vmi = vmi
        self.others: list[VirtualMachineInstance] = []

    def get(self, *_key: str) -> VirtualMachineInstance | None:
        return self.vmi

    def list(self) -> list[VirtualMachineInstance]:
        return [*self.others, *([] if self.vmi is None else [self.vmi])]

    def observe(self, vmi: VirtualMachineInstance) -> None:
        self.vmi = vmi


class Launcher:
    """The connection to one launcher, which answers as a test says; orders are noted."""

    def __init__(self, status: pb.DomainStatus | None = None) -> None:
        self.status = status
        self.orders: list[tuple[str, Any]] = []
        self.answers: dict[str, Callable[[], pb.DomainStatus] | LauncherCallError] = {}
        self.down_seconds = 0.0
        self.pods: list[str] = []
        self.dropped = 0

    def view(self, _key: object = None) -> LauncherView:
        if self.status is None:
            return LauncherView(down_seconds=self.down_seconds)
        return LauncherView(connected=True, synced=True, status=self.status)

    def ensure(self, _key: object, _vmi_uid: str, pod_uid: str) -> None:
        self.pods.append(pod_uid)

    def drop(self, _key: object) -> None:
        self.dropped += 1

    def pod_uid(self, _key: object) -> str:
        return "pod-a"

    def call(self, _key: object, method: str, request: Any, _seconds: float) -> Any:
        self.orders.append((method, request))
        answer = self.answers.get(method)
        if isinstance(answer, LauncherCallError):
            raise answer
        if answer is not None:
            self.status = answer()
        return self.status

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.orders]


def refusal(words: str, code: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION) -> LauncherCallError:
    return LauncherCallError(code, words)


def running(**more: Any) -> pb.DomainStatus:
    return pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, migrates=True, **more)


def leaving(state: pb.OutgoingState, uid: str = UID, **more: Any) -> pb.DomainStatus:
    """The status of the source's launcher."""
    gone = state == pb.OUTGOING_GONE
    return pb.DomainStatus(
        state=pb.DOMAIN_STATE_SHUTOFF if gone else pb.DOMAIN_STATE_RUNNING,
        reason=pb.DOMAIN_REASON_MIGRATED if gone else pb.DOMAIN_REASON_BOOTED,
        migrates=True,
        outgoing=pb.OutgoingMigration(migration_uid=uid, state=state, **more),
    )


def coming(state: pb.IncomingState, message: str = "", uid: str = UID) -> pb.DomainStatus:
    """The status of the target's launcher."""
    told = pb.IncomingMigration(migration_uid=uid, state=state, message=message)
    return pb.DomainStatus(incoming=told, migrates=True)


class Events:
    """What users were told: reasons and texts."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def record(self, _vmi: object, _type: str, reason: str, text: str) -> None:
        self.said.append((reason, text))


class Ways:
    """The ways of leaving guests; opening one may be refused."""

    def __init__(self) -> None:
        self.opened: dict[str, Any] = {}
        self.refused: Exception | None = None

    def open(self, uid: str, guest: Any) -> None:
        if self.refused is not None:
            raise self.refused
        self.opened[uid] = guest

    def close(self, uid: str) -> None:
        self.opened.pop(uid, None)
