"""Keeps it true of each VM, and of its run, whether backups may have changed blocks alone.

Run by the controller role. Follows VMs, VMIs and the KubeVirt object's configuration; reads a namespace's labels where
these count.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from kvedge.controller.late_work import LateWork
from kvedge.controller.snapshots.snapshot_writes import SnapshotWrites
from kvedge.controller.vm_backups.tracking_plan import write_state
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.errors import NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.configuration.feature_gates import INCREMENTAL_BACKUP
from kvedge.resources.types.core import Namespace
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# Labels of namespaces are not followed.
_AGAIN_SECONDS: Final = 300.0


class TrackingSources(Struct, frozen=True):
    """What the loop works with."""

    client: KubeClient
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    events: EventRecorder
    configuration: ConfigurationFollower


def make_tracking_work(sources: TrackingSources) -> LateWork:
    """What keeps the states; all informers are started and stopped by others."""
    return LateWork("block-tracking", (), (sources.vms, sources.vmis), TrackingLoop(sources))


class TrackingLoop:
    """One reconcile loop over all VMs."""

    def __init__(self, sources: TrackingSources) -> None:
        """The informers have not been started yet."""
        self._sources = sources
        informers: dict[type, Informer[Any]] = {VirtualMachine: sources.vms, VirtualMachineInstance: sources.vmis}
        self._writes = SnapshotWrites(sources.client, sources.events, informers)
        self.loop = ReconcileLoop("block-tracking", self.reconcile)
        sources.vms.on_change(self._on_vm)
        sources.vmis.on_change(self._on_vmi)
        sources.configuration.on_change(self._on_configuration)

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one VM and its run.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        configuration = self._sources.configuration.current
        tracked = configuration.tracked_vms
        gate = configuration.gates.is_on(INCREMENTAL_BACKUP)
        vm, vmi = self._sources.vms.get(*key), self._sources.vmis.get(*key)
        items: tuple[VirtualMachine | VirtualMachineInstance | None, ...] = (vm, vmi)
        for item in items:
            if item is None or item.metadata.deletion_timestamp is not None or _is_over(item):
                continue
            # A run follows its VM.
            labels = item.metadata.labels if vm is None else vm.metadata.labels
            selected = tracked.select(labels, functools.partial(self._namespace_labels, key.namespace))
            write = write_state(item, selected=selected, gate=gate, runs=vmi is not None)
            if write is not None:
                self._writes.patch(write)
        waits = tracked.by_namespace is not None and (vm is not None or vmi is not None)
        return Again(_AGAIN_SECONDS) if waits else None

    def _namespace_labels(self, namespace: str) -> Mapping[str, str]:
        try:
            return self._sources.client.get(Namespace, "", namespace).metadata.labels
        except NotFound:
            return {}

    def _on_vm(self, old: VirtualMachine | None, new: VirtualMachine | None) -> None:
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            self.loop.add(Key(new.metadata.namespace, new.metadata.name))

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        if new is not None and (old is None or old.status.phase != new.status.phase):
            self.loop.add(Key(new.metadata.namespace, new.metadata.name))

    def _on_configuration(self, found: Configuration) -> None:
        metas = [item.metadata for item in self._sources.vms.list()]
        metas += [item.metadata for item in self._sources.vmis.list()]
        for meta in metas:
            self.loop.add(Key(meta.namespace, meta.name))


def _is_over(item: VirtualMachine | VirtualMachineInstance) -> bool:
    return isinstance(item, VirtualMachineInstance) and item.is_final
