"""Brings the hotplugged volumes of one VMI after the other to its node, and lets them go again.

Run by the controller role. Reads VMIs, launcher and attachment Pods and claims from informers, asks
:func:`plan_hotplug`, and does what it says, each write of a VMI against the version that was planned on. A Pod that the
server refuses holds up its own volume alone, which is tried again with back-off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vmi.claim_holders import ClaimHolders
from kvedge.controller.vmi.claim_rules import IN_USE_SECONDS
from kvedge.controller.vmi.hotplug.hotplug_plan import (
    CreateAttachment,
    DeleteAttachment,
    HotplugView,
    PatchStatus,
    plan_hotplug,
)
from kvedge.controller.vmi.launcher_pods import launcher_of, list_over
from kvedge.controller.vmi_claims import has_hotplugged, index_by_claim, vmis_of
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.observed_delete import delete_observed
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.moved_volumes import attached_volumes
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_WORKERS: Final = 2
_MOST_STEPS: Final = 6


class HotplugSources(Struct, frozen=True):
    """The informers and writers that the loop works with; `cdi_config` is None while it is not known."""

    client: KubeClient
    vmis: Informer[VirtualMachineInstance]
    launchers: Informer[Pod]
    attachments: Informer[Pod]
    claims: Informer[PersistentVolumeClaim]
    cdi_config: Callable[[], CdiConfig | None]
    holders: ClaimHolders
    events: EventRecorder
    clock: Clock
    config: Callable[[], ClusterConfig]


class HotplugLoop:
    """One reconcile loop over all VMIs, for their hotplugged volumes alone."""

    def __init__(self, sources: HotplugSources) -> None:
        self._client = sources.client
        self._vmis = sources.vmis
        index_by_claim(self._vmis)
        self._launchers = sources.launchers
        self._attachments = sources.attachments
        self._claims = sources.claims
        self._cdi_config = sources.cdi_config
        self._config = sources.config
        self._holders = sources.holders
        self._events = sources.events
        self._patience = CreatePatience(sources.clock.monotonic)
        # Why the Pod of a volume was refused, by the VMI's UID and the volume.
        self._refusals: dict[str, dict[str, str]] = {}
        self.loop = ReconcileLoop("hotplug", self.reconcile, _WORKERS)

    def start(self) -> None:
        """Begin to work on all VMIs there are."""
        self._vmis.on_change(self._on_vmi)
        self._launchers.on_change(self._on_launcher)
        self._attachments.on_change(self._on_attachment)
        self._claims.on_change(self._on_claim)
        self.loop.start()

    def stop(self) -> None:
        """End the workers."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one VMI."""
        for _ in range(_MOST_STEPS):
            vmi = self._vmis.get(*key)
            if vmi is None:
                return None
            view = self._view(vmi)
            actions = plan_hotplug(view)
            if not actions:
                return self._next_try(view)
            # One write of the VMI in a pass: what comes after it is planned on what it made.
            for action in actions:
                match action:
                    case PatchStatus():
                        self._patch(vmi, action)
                    case CreateAttachment():
                        self._create(vmi, action)
                    case DeleteAttachment():
                        self._delete(vmi, action)
        log.error("a VMI's plan of hotplug does not settle", extra={"facts": {"vmi": str(key)}})
        return Again(5.0)

    def _view(self, vmi: VirtualMachineInstance) -> HotplugView:
        launchers = self._launchers.find_owned_by(vmi.metadata.uid)
        launcher = launcher_of(vmi, launchers)
        pods: Sequence[Pod] = () if launcher is None else self._attachments.find_owned_by(launcher.metadata.uid)
        names = {claim_of(volume) or "" for volume in attached_volumes(vmi)}
        found = ((name, self._claims.get(vmi.metadata.namespace, name)) for name in names)
        holders = ((name, self._holder(vmi, name)) for name in names)
        return HotplugView(
            vmi,
            launcher,
            pods,
            {name: claim for name, claim in found if claim is not None},
            self._refusals.get(vmi.metadata.uid, {}),
            frozenset(
                volume.name for volume in attached_volumes(vmi) if self._count_seconds_left(vmi, volume.name) > 0
            ),
            {name: holder for name, holder in holders if holder is not None},
            self._cdi_config(),
            [
                pod
                for over in list_over(vmi, launcher, launchers)
                for pod in self._attachments.find_owned_by(over.metadata.uid)
            ],
            self._config().support,
        )

    def _holder(self, vmi: VirtualMachineInstance, claim: str) -> VirtualMachineInstance | None:
        """The VMI that keeps this one from a claim; none from one that it has already."""
        return None if has_hotplugged(vmi, claim) else self._holders.holder(vmi, claim)

    def _count_seconds_left(self, vmi: VirtualMachineInstance, volume: str) -> float:
        return self._patience.count_seconds_left(f"{vmi.metadata.uid}/{volume}")

    def _next_try(self, view: HotplugView) -> Again | None:
        vmi = view.vmi
        waits = [
            seconds for volume in attached_volumes(vmi) if (seconds := self._count_seconds_left(vmi, volume.name)) > 0
        ]
        if view.holders:
            waits.append(IN_USE_SECONDS)
        return Again(min(waits)) if waits else None

    def _patch(self, vmi: VirtualMachineInstance, action: PatchStatus) -> None:
        meta = vmi.metadata
        patch = at_version(action.body, meta.resource_version)
        self._vmis.observe(self._client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch))
        for reason, message in action.news:
            self._events.record(vmi, "Normal", reason, message)

    def _create(self, vmi: VirtualMachineInstance, action: CreateAttachment) -> None:
        names = {claim_of(volume) or "" for volume in attached_volumes(vmi) if volume.name == action.volume}
        with self._holders.taking:
            # Somebody may have taken it since this was planned: then the next step tells of it.
            if not any(self._holder(vmi, name) for name in names):
                self._create_pod(vmi, action)

    def _create_pod(self, vmi: VirtualMachineInstance, action: CreateAttachment) -> None:
        meta, key = action.pod.metadata, f"{vmi.metadata.uid}/{action.volume}"
        try:
            created = self._client.create(action.pod)
        except AlreadyExists:
            # The cache is behind, or one that ends still has the name.
            self._patience.note_refusal(key)
            self._attachments.observe(self._client.get(Pod, meta.namespace, meta.name))
            return
        except KubeError as error:
            if is_passing(error) or isinstance(error, Conflict):
                raise
            self._patience.note_refusal(key)
            text = f"Error creating attachment pod: {error}"
            self._refusals.setdefault(vmi.metadata.uid, {})[action.volume] = text
            self._events.record(vmi, "Warning", "FailedCreate", text)
            return
        # A Pod that is evicted at once, again and again, is made with back-off as well.
        self._patience.note_refusal(key)
        self._refusals.get(vmi.metadata.uid, {}).pop(action.volume, None)
        self._attachments.observe(created)
        self._events.record(vmi, "Normal", "SuccessfulCreate", f"Created attachment pod {meta.name}")

    def _delete(self, vmi: VirtualMachineInstance, action: DeleteAttachment) -> None:
        was_there = delete_observed(self._client, self._attachments, action.pod)
        if not was_there:
            return
        if action.volume:
            # It went because its work was done, and not because it had failed.
            self._patience.forget(f"{vmi.metadata.uid}/{action.volume}")
        self._events.record(vmi, "Normal", "SuccessfulDelete", f"Deleted attachment pod {action.pod.metadata.name}")

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._refusals.pop(item.metadata.uid, None)
        for volume in () if old is None else attached_volumes(old):
            if new is None or volume.name not in {each.name for each in attached_volumes(new)}:
                self._patience.forget(f"{item.metadata.uid}/{volume.name}")
                self._refusals.get(item.metadata.uid, {}).pop(volume.name, None)
        if new is not None:
            self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_launcher(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is not None and owner.kind == VirtualMachineInstance.KIND.kind:
            self.loop.add(Key(item.metadata.namespace, owner.name))

    def _on_attachment(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        launcher = None if owner is None else self._launchers.get(item.metadata.namespace, owner.name)
        if launcher is not None:
            self._on_launcher(None, launcher)

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        for vmi in vmis_of(self._vmis, item.metadata.namespace, item.metadata.name):
            self.loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))
