"""Makes the attachment Pods on the node that a guest comes to.

Held by the migration's steps. Writes to the API server. Each Pod has the one name that follows from the migration's
UID, its volume and its claim, and goes with the launcher that the guest comes to.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.controller.migrations.target_creation import MigrationSources
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration


class AttachmentCreation:
    """Makes Pods, with back-off where the server refuses."""

    def __init__(self, sources: MigrationSources) -> None:
        self._client = sources.client
        self._attachments = sources.attachments
        self._events = sources.events
        self._patience = CreatePatience(sources.clock.monotonic)

    def forget(self, uid: str) -> None:
        """A migration is gone."""
        self._patience.forget(uid)

    def create(self, migration: VirtualMachineInstanceMigration, pods: Iterable[Pod]) -> float | None:
        """Make the Pods; a number ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        uid = migration.metadata.uid
        wait = self._patience.count_seconds_left(uid)
        if wait > 0:
            return wait
        for pod in pods:
            try:
                refusal = self._create(migration, pod)
            except Conflict:
                raise
            except KubeError as error:
                if is_passing(error):
                    raise
                refusal = str(error)
            if refusal:
                text = f"Error creating attachment pod: {refusal}"
                self._events.record(migration, "Warning", "FailedCreate", text)
                return self._patience.note_refusal(uid)
        self._patience.forget(uid)
        return None

    def _create(self, migration: VirtualMachineInstanceMigration, pod: Pod) -> str:
        """What is in the way; empty when the Pod is there."""
        meta = pod.metadata
        try:
            created = self._client.create(pod)
        except AlreadyExists as error:
            # The cache is behind, or somebody else has the name.
            found = self._client.get(Pod, meta.namespace, meta.name)
            self._attachments.observe(found)
            return "" if found.metadata.controller_reference() == meta.controller_reference() else str(error)
        self._attachments.observe(created)
        self._events.record(migration, "Normal", "SuccessfulCreate", f"Created attachment pod {meta.name}")
        return ""
