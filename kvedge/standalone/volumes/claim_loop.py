"""Brings claims to their volumes: reads, asks the claim plan, and does what it says.

Run by the volumes' service, one claim at a time, so that two claims never take one volume. Writes claims and volumes;
each write names the version that was read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field

from kvedge.kube.errors import Invalid, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.runtime.clock import Clock, rfc3339
from kvedge.standalone.volumes.claim_plan import (
    AskProvisioner,
    ClaimSeen,
    ClaimStep,
    NameVolume,
    Provision,
    SetStatus,
    TakeVolume,
    Tell,
    UseClass,
    plan_claim,
)
from kvedge.standalone.volumes.claim_users import users_of
from kvedge.standalone.volumes.growth_plan import (
    BeginGrowth,
    EndGrowth,
    GrowthStep,
    GrowVolume,
    growth_status,
    make_grown_status,
    plan_growth,
)
from kvedge.standalone.volumes.provisioner import Provisioner
from kvedge.standalone.volumes.volume_matching import is_for
from kvedge.standalone.volumes.volume_words import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    CLAIM_PROTECTION,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
)
from kvedge.storage.volumes.volume_driver import VolumeDriverError

# Room that has become free and disks that are mounted again tell nobody: what failed is tried again.
_FIRST_WAIT: Final = 2.0
_LONGEST_WAIT: Final = 60.0
# So long a claim that waits says nothing new; Kubernetes looks as often.
_SAY_AGAIN: Final = 15.0
_COPY_SECONDS: Final = 0.5


class _UnderWay(Exception):
    """A volume is being copied."""


class _Failure(Struct):
    """How often a claim has failed, and until when it is left alone."""

    uid: str
    until: datetime
    count: int = 0


class Followed(Struct, frozen=True):
    """What the loops see of the API."""

    claims: Informer[PersistentVolumeClaim]
    volumes: Informer[PersistentVolume]
    classes: Informer[StorageClass]
    pods: Informer[Pod]
    node: Callable[[], Node | None]


class ClaimLoop(Struct):
    """Binds the claims of all namespaces."""

    client: KubeClient
    events: EventRecorder
    followed: Followed
    provisioner: Provisioner
    clock: Clock
    _failures: dict[Key, _Failure] = field(default_factory=dict)

    def reconcile(self, key: Key) -> Again | None:
        """One claim's next steps.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        claim = self.followed.claims.get(*key)
        if claim is None:
            self._failures.pop(key, None)
            return None
        failure = self._failures.get(key)
        if failure is not None and failure.uid != claim.metadata.uid:
            del self._failures[key]
        elif failure is not None and claim.metadata.deletion_timestamp is None:
            # Even if the claim changes meanwhile: the scheduler answers a failure with the same node again.
            rest = (failure.until - self.clock.now()).total_seconds()
            if rest > 0 and not self._has_volume(claim):
                return Again(rest)
        followed = self.followed
        seen = ClaimSeen(claim, followed.volumes.list(), followed.classes.list(), followed.node())
        try:
            if self._let_go(claim):
                return None
            for step in plan_claim(seen):
                claim = self._apply(claim, step)
            for growth in plan_growth(claim, followed.volumes.get("", claim.spec.volume_name)):
                claim = self._grow(claim, growth)
        except NotFound:
            # The claim or the volume has just gone: the watch tells.
            return None
        except _UnderWay:
            return Again(_COPY_SECONDS)
        except VolumeDriverError as error:
            return self._note_failure(key, claim, error)
        self._failures.pop(key, None)
        return Again(_SAY_AGAIN) if claim.status.phase == "Pending" and not claim.spec.volume_name else None

    def _has_volume(self, claim: PersistentVolumeClaim) -> bool:
        """Whether somebody else has made a volume for a claim."""
        return any(is_for(volume, claim) for volume in self.followed.volumes.list())

    def _let_go(self, claim: PersistentVolumeClaim) -> bool:
        """Take the protection off a claim that is being deleted, once no Pod uses it; the API itself is asked, too."""
        meta = claim.metadata
        if meta.deletion_timestamp is None or CLAIM_PROTECTION not in meta.finalizers:
            return False
        if users_of(meta.namespace, meta.name, self.followed.pods.list()):
            return False
        if users_of(meta.namespace, meta.name, self.client.list(Pod, meta.namespace)):
            return False
        kept = [name for name in meta.finalizers if name != CLAIM_PROTECTION]
        self._write(claim, {"metadata": {"finalizers": kept}})
        return True

    def _grow(self, claim: PersistentVolumeClaim, step: GrowthStep) -> PersistentVolumeClaim:
        match step:
            case BeginGrowth(size):
                return self._write(claim, {"status": growth_status(size, rfc3339(self.clock.now()))}, "status")
            case GrowVolume(volume, size):
                try:
                    grown = self.provisioner.grow(volume, size)
                except VolumeDriverError as error:
                    text = f'resize volume "{volume.metadata.name}" failed: {error}'
                    raise VolumeDriverError(text, "VolumeResizeFailed") from error
                self.followed.volumes.observe(grown)
                return self._grow(claim, EndGrowth(size))
            case EndGrowth(size):
                written = self._write(claim, {"status": make_grown_status(size)}, "status")
                self.events.record(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")
                return written
            case Tell():
                self.events.record(claim, step.type, step.reason, step.message)
        return claim

    def _apply(self, claim: PersistentVolumeClaim, step: ClaimStep) -> PersistentVolumeClaim:
        match step:
            case UseClass(name):
                return self._write(claim, {"spec": {"storageClassName": name}})
            case TakeVolume(volume):
                self._take(claim, volume)
            case NameVolume(volume):
                notes = {BIND_COMPLETED: "yes"}
                if not claim.spec.volume_name:
                    notes[BOUND_BY_CONTROLLER] = "yes"
                change = {"spec": {"volumeName": volume.metadata.name}, "metadata": {"annotations": notes}}
                return self._write(claim, change)
            case SetStatus(phase, volume):
                return self._write(claim, {"status": _status(phase, volume)}, "status")
            case AskProvisioner(name):
                if claim.metadata.annotations.get(STORAGE_PROVISIONER) != name:
                    notes = {STORAGE_PROVISIONER: name, BETA_STORAGE_PROVISIONER: name}
                    return self._write(claim, {"metadata": {"annotations": notes}})
            case Provision(storage_class):
                if not self._provision(claim, storage_class):
                    raise _UnderWay
            case Tell():
                self.events.record(claim, step.type, step.reason, step.message)
        return claim

    def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        """Have a volume made; False while its content is being copied."""
        if not self.provisioner.copies.is_under_way(claim.metadata.uid):
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            text = f'External provisioner is provisioning volume for claim "{name}"'
            self.events.record(claim, "Normal", "Provisioning", text)
        made = self.provisioner.provision(claim, storage_class)
        if made is None:
            return False
        text = f"Successfully provisioned volume {made.metadata.name}"
        self.events.record(claim, "Normal", "ProvisioningSucceeded", text)
        # The change of the volume brings the claim here again.
        self.followed.volumes.observe(made)
        return True

    def _note_failure(self, key: Key, claim: PersistentVolumeClaim, error: VolumeDriverError) -> Again:
        failure = self._failures.setdefault(key, _Failure(claim.metadata.uid, self.clock.now()))
        failure.count += 1
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failure.count - 1, 10))
        failure.until = self.clock.now() + timedelta(seconds=wait)
        name = claim.spec.storage_class_name or ""
        text = str(error)
        if not claim.spec.volume_name:
            text = f'failed to provision volume with StorageClass "{name}": {error}'
        self.events.record(claim, "Warning", error.reason, text)
        if SELECTED_NODE in claim.metadata.annotations:
            # As Kubernetes has it: the scheduler looks for a node anew.
            self._write(claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
        return Again(wait)

    def _take(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        meta = claim.metadata
        ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
        notes = {BOUND_BY_CONTROLLER: "yes"} if volume.spec.claim_ref is None else {}
        change: JsonObject = {"spec": {"claimRef": ref}, "metadata": {"annotations": notes}}
        patch = at_version(change, volume.metadata.resource_version)
        written = self.client.patch(PersistentVolume, "", volume.metadata.name, patch)
        self.followed.volumes.observe(written)

    def _write(self, claim: PersistentVolumeClaim, change: JsonObject, subresource: str = "") -> PersistentVolumeClaim:
        meta = claim.metadata
        patch = at_version(change, meta.resource_version)
        try:
            written = self.client.patch(PersistentVolumeClaim, meta.namespace, meta.name, patch, subresource)
        except Invalid as error:
            # Somebody's object that no write passes any more: told on it, and looked at again.
            raise VolumeDriverError(str(error), "FailedBinding") from error
        self.followed.claims.observe(written)
        return written


def _status(phase: str, volume: PersistentVolume | None) -> JsonObject:
    if volume is None:
        return {"phase": phase}
    return {"phase": phase, "accessModes": volume.spec.access_modes, "capacity": dict(volume.spec.capacity)}
