"""Keeps PersistentVolumes' phases true, and takes volumes away whose claims are gone.

Run by the volumes' service. Writes volumes; data goes through the provisioner, which asks the API once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kvedge.kube.errors import NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.standalone.volumes.claim_loop import Followed
from kvedge.standalone.volumes.provisioner import Provisioner
from kvedge.standalone.volumes.volume_plan import (
    DeleteObject,
    DropFinalizers,
    EraseData,
    SetPhase,
    VolumeStep,
    plan_volume,
)
from kvedge.storage.volumes.volume_driver import VolumeDriverError

_AGAIN_SECONDS: Final = 15.0


class VolumeLoop(Struct):
    """Looks after all PersistentVolumes."""

    client: KubeClient
    events: EventRecorder
    followed: Followed
    provisioner: Provisioner

    def reconcile(self, key: Key) -> Again | None:
        """One volume's next steps.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        volume = self.followed.volumes.get("", key.name)
        if volume is None:
            return None
        try:
            for step in plan_volume(volume, self._claim(volume)):
                volume = self._apply(volume, step)
        except NotFound:
            return None
        except VolumeDriverError as error:
            self.events.record(volume, "Warning", "VolumeFailedDelete", str(error))
            self._write_phase(volume, "Failed", str(error))
            return Again(_AGAIN_SECONDS)
        return None

    def _claim(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        ref = volume.spec.claim_ref
        return None if ref is None else self.followed.claims.get(ref.namespace, ref.name)

    def _apply(self, volume: PersistentVolume, step: VolumeStep) -> PersistentVolume:
        match step:
            case SetPhase(phase, message):
                return self._write_phase(volume, phase, message)
            case EraseData():
                self.provisioner.erase(volume)
            case DeleteObject():
                self.client.delete(PersistentVolume, "", volume.metadata.name, Preconditions(uid=volume.metadata.uid))
                return self.client.get(PersistentVolume, "", volume.metadata.name)
            case DropFinalizers(names):
                kept = [name for name in volume.metadata.finalizers if name not in names]
                patch = at_version({"metadata": {"finalizers": kept}}, volume.metadata.resource_version)
                return self.client.patch(PersistentVolume, "", volume.metadata.name, patch)
        return volume

    def _write_phase(self, volume: PersistentVolume, phase: str, message: str) -> PersistentVolume:
        if (volume.status.phase, volume.status.message) == (phase, message):
            return volume
        status: Mapping[str, str | None] = {"phase": phase, "message": message or None}
        name = volume.metadata.name
        patch = at_version({"status": dict(status)}, volume.metadata.resource_version)
        written = self.client.patch(PersistentVolume, "", name, patch, "status")
        self.followed.volumes.observe(written)
        return written
