"""A small model of an API server, a kubelet and a handler, for what becomes of hotplugged volumes.

The server has versions; the kubelet runs attachment Pods; the handler hands volumes to the guest and takes them back,
by KubeVirt's table of phases. A volume that the guest holds while its Pod was asked to end is a defect.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from kvedge.controller.vmi.hotplug.hotplug_plan import (
    CreateAttachment,
    DeleteAttachment,
    HotplugAction,
    HotplugView,
    PatchStatus,
    plan_hotplug,
)
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.volume_facts import claim_of, hotplugged_volumes
from kvedge.resources.types.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance, VolumeStatus
from kvedge.resources.types.volumes import PersistentVolumeClaimSource, Volume
from tests.support.builders import a_claim, a_pod, a_vmi, patched
from tests.unit.controller.world import sent

RUNNING = ContainerState(running=ContainerStateRunning(started_at="2026-01-02T03:00:00Z"))


class Stale(Exception):
    """The server refuses what was planned on an old version."""


def running_container(name: str) -> ContainerStatus:
    return ContainerStatus(name=name, ready=True, restart_count=0, image="i", image_id="", state=RUNNING)


def a_volume(name: str, claim: str = "") -> Volume:
    source = PersistentVolumeClaimSource(claim_name=claim or name, hotpluggable=True)
    return Volume(name=name, persistent_volume_claim=source)


def a_running_vmi(*volumes: Volume) -> VirtualMachineInstance:
    vmi = a_vmi("Running")
    vmi.spec.volumes = [*vmi.spec.volumes, *volumes]
    return vmi


def a_launcher(vmi: VirtualMachineInstance) -> Pod:
    pod = a_pod(vmi, "Running", "node-1")
    pod.metadata.uid = "launcher-uid"
    pod.status.container_statuses = [running_container("compute")]
    return pod


@dataclass
class HotplugWorld:
    """One VMI that runs."""

    vmi: VirtualMachineInstance
    launcher: Pod
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    # What the guest has, by volume: the claim.
    held: dict[str, str] = field(default_factory=dict)
    # Volumes that the guest does not let go of.
    stuck: set[str] = field(default_factory=set)
    # Whether somebody takes Pods.
    has_quota: bool = True
    version: int = 100
    serial: int = 0

    @classmethod
    def new(cls, *claims: str) -> HotplugWorld:
        vmi = a_running_vmi()
        return cls(vmi, a_launcher(vmi), {name: a_claim(name) for name in claims})

    def view(self) -> HotplugView:
        pods = [sent(pod) for pod in self.pods.values()]
        return HotplugView(
            sent(self.vmi), sent(self.launcher), pods, {name: sent(c) for name, c in self.claims.items()}
        )

    def entry(self, name: str) -> VolumeStatus | None:
        return next((entry for entry in self.vmi.status.volume_status if entry.name == name), None)

    # What users do.

    def wants(self, *volumes: Volume) -> None:
        kept = [volume for volume in self.vmi.spec.volumes if claim_of(volume) is None]
        self.vmi.spec.volumes = [*kept, *volumes]
        self._changed()

    # What the controller does.

    def do(self, view: HotplugView, action: HotplugAction) -> None:
        match action:
            case PatchStatus(body):
                if view.vmi.metadata.resource_version != self.vmi.metadata.resource_version:
                    raise Stale
                self.vmi = decode(VirtualMachineInstance, patched(encode(self.vmi), body))
                self._changed()
            case CreateAttachment(_, pod):
                if not self.has_quota or pod.metadata.name in self.pods:
                    raise Stale
                made = sent(pod)
                self.serial += 1
                made.metadata.uid = f"pod-{self.serial}"
                made.status.phase = "Pending"
                self.pods[made.metadata.name] = made
            case DeleteAttachment(pod):
                live = self.pods.get(pod.metadata.name)
                if live is not None and live.metadata.uid == pod.metadata.uid:
                    live.metadata.deletion_timestamp = live.metadata.deletion_timestamp or "2026-01-02T03:00:00Z"

    def controller_works(self, view: HotplugView | None = None) -> None:
        seen = view or self.view()
        for action in plan_hotplug(seen):
            try:
                self.do(seen, action)
            except Stale:
                return
            if isinstance(action, PatchStatus):
                # The loop plans on the answer in its next step: what follows was planned with it.
                seen = HotplugView(sent(self.vmi), seen.launcher, seen.pods, seen.claims)

    # What kubelet and handler do.

    def kubelet_works(self) -> None:
        for name, pod in list(self.pods.items()):
            if pod.metadata.deletion_timestamp is not None:
                del self.pods[name]
                continue
            source = next(v.persistent_volume_claim for v in pod.spec.volumes if v.persistent_volume_claim)
            claim = self.claims.get(source.claim_name)
            if claim is not None and claim.status.phase == "Pending":
                claim.status.phase = "Bound"  # Its first consumer has come.
            elif claim is not None and claim.status.phase == "Bound" and pod.status.phase == "Pending":
                pod.status.phase = "Running"
                pod.status.container_statuses = [running_container("hotplug-disk")]

    def pod_is_evicted(self, name: str) -> None:
        self.pods[name].status.phase = "Failed"
        self.pods[name].status.container_statuses = []

    def pod_is_lost(self, name: str) -> None:
        del self.pods[name]

    def handler_works(self) -> None:
        wanted = {volume.name: claim_of(volume) or "" for volume in hotplugged_volumes(self.vmi)}
        entries = []
        for entry in self.vmi.status.volume_status:
            entries.append(entry if entry.hotplug_volume is None else self._handled(entry, wanted))
        if entries != self.vmi.status.volume_status:
            self.vmi.status.volume_status = entries
            self._changed()

    def _handled(self, entry: VolumeStatus, wanted: dict[str, str]) -> VolumeStatus:
        assert entry.hotplug_volume is not None
        uid = entry.hotplug_volume.attach_pod_uid
        if entry.name in wanted:
            pod = next((pod for pod in self.pods.values() if pod.metadata.uid == uid), None)
            if entry.name not in self.held and pod is not None and entry.phase == "AttachedToNode":
                self.held[entry.name] = wanted[entry.name]
                return msgspec.structs.replace(entry, phase="MountedToPod", reason="VolumeMountedToPod")
            if entry.phase == "MountedToPod":
                return msgspec.structs.replace(entry, phase="Ready", reason="VolumeReady", target="sda")
            return entry
        if entry.name in self.stuck or entry.phase not in ("Ready", "MountedToPod", "AttachedToNode"):
            return entry
        self.held.pop(entry.name, None)
        return msgspec.structs.replace(entry, phase="UnMountedFromPod", reason="VolumeUnMountedFromPod", target="")

    def _changed(self) -> None:
        self.version += 1
        self.vmi.metadata.resource_version = str(self.version)

    # What must hold.

    def settle(self) -> None:
        """Everybody works until nobody has anything to do."""
        for _ in range(60):
            before = self._documents()
            self.controller_works()
            self.kubelet_works()
            self.handler_works()
            if before == self._documents():
                return
        raise AssertionError("it never comes to rest")

    def _documents(self) -> list[object]:
        return [
            encode(self.vmi),
            *({name: encode(item) for name, item in all_.items()} for all_ in (self.pods, self.claims)),
        ]

    def holds_no_volume_without_its_entry(self) -> None:
        """Whoever wants the claim again must see that the guest has it."""
        for name in self.held:
            entry = self.entry(name)
            assert entry is not None, f"the guest holds {name}, and the status does not say so"
