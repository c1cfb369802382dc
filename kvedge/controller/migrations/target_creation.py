"""Makes the Pod that a guest comes to.

Held by the migration's steps. Writes to the API server. The Pod has the one name that follows from the migration's UID,
and is made only when the server has both objects as they were planned on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.kubevirt.condition_rules import without_conditions
from kvedge.controller.migrations.coming_state import CAUGHT_UP_SECONDS, ComingState
from kvedge.controller.migrations.migration_status import with_true
from kvedge.controller.migrations.migration_view import REJECTED_BY_QUOTA, MigrationView
from kvedge.controller.migrations.readiness import WAITS
from kvedge.controller.migrations.target_pod import target_pod
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_over_quota, is_passing, pod_refusal
from kvedge.controller.vmi.claim_holders import ClaimHolders
from kvedge.controller.vmi.claim_rules import in_use
from kvedge.controller.vmi.lans.lan_places import NetworkMissing
from kvedge.controller.vmi.launcher_pods import launcher_of
from kvedge.controller.vmi.placed_pod import place_pod
from kvedge.controller.vmi.quota_limits import create_launcher
from kvedge.controller.vmi.sriov_resources import FunctionsUnknown
from kvedge.controller.vmi.vmi_steps import own_pods
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.configuration.configuration import Migrations
from kvedge.resources.disks.claim_facts import is_populated
from kvedge.resources.disks.moved_volumes import as_moved, destinations
from kvedge.resources.disks.state_claims import as_state_moved, state_claim_of, state_volumes
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.names import HOST_NAME
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.migrations import (
    MigrationPolicy,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationStatus,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

# A claim that is being filled.
_FILLING_SECONDS: Final = 5.0


class MigrationSources(Struct, frozen=True):
    """The informers, writers and settings that the loop works with."""

    client: KubeClient
    migrations: Informer[VirtualMachineInstanceMigration]
    policies: Informer[MigrationPolicy]
    vmis: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    claims: Informer[PersistentVolumeClaim]
    attachments: Informer[Pod]
    nodes: Informer[Node]
    holders: ClaimHolders
    events: EventRecorder
    clock: Clock
    # The versions of handlers, by node.
    versions: Callable[[], Mapping[str, str]]
    limits: Callable[[], Migrations]
    config: Callable[[], ClusterConfig]


class TargetCreation:
    """Makes Pods, with back-off where the server refuses."""

    def __init__(
        self,
        sources: MigrationSources,
        write: Callable[[VirtualMachineInstanceMigration, VirtualMachineInstanceMigrationStatus], None],
    ) -> None:
        """`write` writes a migration's status."""
        self._sources = sources
        self._client = sources.client
        self._events = sources.events
        self._write = write
        self._patience = CreatePatience(sources.clock.monotonic)
        self.state = ComingState(sources.client, sources.claims, self._note_failure)

    def forget(self, uid: str) -> None:
        """A migration is gone."""
        self._patience.forget(uid)

    def create(self, view: MigrationView) -> float | None:
        """Make the Pod; a number ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        vmi, meta = view.vmi, view.migration.metadata
        assert vmi is not None
        wait = self._patience.count_seconds_left(meta.uid)
        if wait > 0:
            return wait
        source = launcher_of(vmi, view.pods)
        is_missing = source is None and view.migration.spec.receive is None
        if is_missing or not self._is_as_read(view):
            return CAUGHT_UP_SECONDS
        moved = as_moved(vmi)
        if view.migration.spec.receive is None:
            moved = as_state_moved(moved, view.migration.job)
        config, found = self._sources.config(), self._find_claims(moved)
        if unfit := _find_unfit(vmi, found):
            return self._note_failure(view, unfit)
        if (pause := self.state.ensure(view, vmi, state_claim_of(moved.metadata), found)) is not None:
            return pause
        if filling := _find_filling(vmi, found):
            self._events.record(view.migration, "Normal", WAITS, filling)
            return _FILLING_SECONDS
        avoided, labels = self._find_avoided(view), self._labels_of(vmi.status.node_name)
        pod = target_pod(moved, view.migration, source, config, found, avoided, labels)
        try:
            pod = place_pod(pod, moved, found.values(), self._client, config)
        except (NetworkMissing, FunctionsUnknown) as error:
            return self._note_failure(view, str(error))
        with self._sources.holders.taking:
            if taken := self._find_taken(vmi):
                return self._note_failure(view, taken)
            return self._create_pod(view, vmi, pod)

    def _find_taken(self, vmi: VirtualMachineInstance) -> str:
        """Which claim that data is to be copied to another VM has got since that was decided."""
        for volume, claim in destinations(vmi).items():
            holder = self._sources.holders.holder(vmi, claim.claim_name)
            if holder is not None:
                return in_use(volume, claim.claim_name, holder, "its data is copied")
        return ""

    def _create_pod(self, view: MigrationView, vmi: VirtualMachineInstance, pod: Pod) -> float | None:
        migration, meta = view.migration, pod.metadata
        try:
            created = create_launcher(self._client, pod, vmi)
        except AlreadyExists as error:
            created = self._client.get(Pod, meta.namespace, meta.name)
            if not own_pods(vmi, [created]):
                return self._note_failure(view, pod_refusal(error, meta.namespace))
        except Conflict:
            raise
        except KubeError as error:
            if is_passing(error):
                raise
            if is_over_quota(error):
                status = with_true(migration.status, REJECTED_BY_QUOTA, self._sources.clock.now(), str(error))
                self._write(migration, status)
            return self._note_failure(view, pod_refusal(error, meta.namespace))
        self._patience.forget(migration.metadata.uid)
        self._sources.pods.observe(created)
        text = f"Created migration target pod {meta.namespace}/{meta.name}"
        self._events.record(migration, "Normal", "SuccessfulCreate", text)
        kept = without_conditions(migration.status.conditions, {REJECTED_BY_QUOTA})
        if kept != migration.status.conditions:
            self._write(migration, msgspec.structs.replace(migration.status, conditions=kept))
        return None

    def _note_failure(self, view: MigrationView, message: str) -> float:
        self._events.record(view.migration, "Warning", "FailedCreate", message)
        return self._patience.note_refusal(view.migration.metadata.uid)

    def _is_as_read(self, view: MigrationView) -> bool:
        """Whether the server has both objects as they were planned on: nobody has cancelled, and the VMI is free."""
        assert view.vmi is not None
        vmi, migration = view.vmi.metadata, view.migration.metadata
        try:
            live = self._client.get(VirtualMachineInstanceMigration, migration.namespace, migration.name)
            self._sources.migrations.observe(live)
            live_vmi = self._client.get(VirtualMachineInstance, vmi.namespace, vmi.name)
            self._sources.vmis.observe(live_vmi)
        except NotFound:
            return False
        read = (migration.resource_version, vmi.resource_version)
        return read == (live.metadata.resource_version, live_vmi.metadata.resource_version)

    def _find_claims(self, vmi: VirtualMachineInstance) -> dict[str, PersistentVolumeClaim]:
        names = {name for _, name in claims([*vmi.spec.volumes, *state_volumes(vmi)])}
        found = ((name, self._sources.claims.get(vmi.metadata.namespace, name)) for name in names)
        return {name: claim for name, claim in found if claim is not None}

    def _find_avoided(self, view: MigrationView) -> set[str]:
        """The host names of nodes whose handlers have another version."""
        nodes = (self._sources.nodes.get("", name) for name, found in view.versions.items() if found != view.version)
        return {node.metadata.labels.get(HOST_NAME, node.metadata.name) for node in nodes if node is not None}

    def _labels_of(self, node_name: str) -> dict[str, str]:
        node = self._sources.nodes.get("", node_name)
        return {} if node is None else node.metadata.labels


def _find_unfit(vmi: VirtualMachineInstance, found: Mapping[str, PersistentVolumeClaim]) -> str:
    """What has become of a claim since it was decided that data is to be copied to it."""
    for volume, info in destinations(vmi).items():
        claim = found.get(info.claim_name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            state = "does not exist" if claim is None else "is being deleted"
            return f"PVC {info.claim_name}, to which the data of volume {volume} is to be copied, {state}"
    return ""


def _find_filling(vmi: VirtualMachineInstance, found: Mapping[str, PersistentVolumeClaim]) -> str:
    """A claim that its DataVolume fills, as it has a user now: the guest's disk would be written over."""
    return next(
        (
            f"PVC {info.claim_name}, to which the data of volume {volume} is to be copied, is being filled: the guest"
            " moves by itself once it is full"
            for volume, info in destinations(vmi).items()
            if not is_populated(found[info.claim_name])
        ),
        "",
    )
