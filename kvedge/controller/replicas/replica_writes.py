"""Makes and deletes VMIs for ReplicaSets, and knows what the cache does not know yet.

Used by the set's loop. Writes to the API server, several writes beside each other in threads of its own. A VMI whose
deletion the cache has not heard of does not count; of one whose deletion was not answered, the server is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kvedge.controller.replicas.replica_status import FAILED_CREATE, FAILED_DELETE
from kvedge.controller.vm.create_refusal import is_passing
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vmi import VirtualMachineInstance

T = TypeVar("T")

# So many VMIs are made or deleted beside each other, for all sets together.
_PARALLEL: Final = 8


class ReplicaWrites:
    """All writes of VMIs for all sets."""

    def __init__(self, client: KubeClient, vmis: Informer[VirtualMachineInstance], events: EventRecorder) -> None:
        self._client = client
        self._vmis = vmis
        self._events = events
        # By the set's UID: UIDs of VMIs that were deleted while the cache goes on to have them.
        self._ended: dict[str, set[str]] = {}
        # By the set's UID: VMIs of which nobody knows whether they were deleted, and those that may have been made.
        self._unsure: dict[str, list[VirtualMachineInstance]] = {}
        self._maybe_made: dict[str, dict[str, VirtualMachineInstance]] = {}
        self._pool = ThreadPoolExecutor(_PARALLEL, "replicas-write")
        self._is_closed = False

    def close(self) -> None:
        """Begin no further write; those that are under way end by themselves."""
        self._is_closed = True
        self._pool.shutdown(wait=False)

    def forget(self, uid: str) -> None:
        """The set is gone."""
        self._ended.pop(uid, None)
        self._unsure.pop(uid, None)
        self._maybe_made.pop(uid, None)

    def maybe_made(self, uid: str) -> list[str]:
        """Names under which VMIs may come into being yet: they are tried first, so that none is made beside them."""
        return sorted(self._maybe_made.get(uid, ()))

    def find_ended(self, uid: str, known: Collection[str]) -> frozenset[str]:
        """UIDs of VMIs of a set that were deleted, among those that the cache has."""
        left = self._ended.get(uid, set()) & {*known}
        if left:
            self._ended[uid] = left
        else:
            self._ended.pop(uid, None)
        return frozenset(left)

    def in_batches(self, items: Sequence[T], do: Callable[[T], KubeError | None]) -> KubeError | None:
        """Do it for one, then for two beside each other, and so on: what the server refuses once, it hardly takes next.

        The first refusal ends it.
        """
        size, done = 1, 0
        while done < len(items) and not self._is_closed:
            batch = items[done : done + size]
            refusals = [refusal for refusal in self._pool.map(do, batch) if refusal is not None]
            if refusals:
                return refusals[0]
            done, size = done + len(batch), min(size * 2, _PARALLEL)
        return None

    def create(self, replica_set: VirtualMachineInstanceReplicaSet, vmi: VirtualMachineInstance) -> KubeError | None:
        """Make a VMI; the refusal, or None."""
        maybe_made = self._maybe_made.setdefault(replica_set.metadata.uid, {})
        try:
            created = self._client.create(vmi)
        except AlreadyExists:
            # The cache is behind, or an answer was lost: it counts from now on if it is the set's.
            self.look_at(vmi)
            maybe_made.pop(vmi.metadata.name, None)
            return None
        except KubeError as error:
            if is_passing(error):
                maybe_made[vmi.metadata.name] = vmi
                return error
            maybe_made.pop(vmi.metadata.name, None)
            message = f"Error creating virtual machine instance: {error}"
            self._events.record(replica_set, "Warning", FAILED_CREATE, message)
            return error
        maybe_made.pop(vmi.metadata.name, None)
        self._vmis.observe(created)
        message = f"Started the virtual machine by creating the new virtual machine instance {created.metadata.name}"
        self._events.record(replica_set, "Normal", "SuccessfulCreate", message)
        return None

    def delete(
        self, replica_set: VirtualMachineInstanceReplicaSet, words: str, vmi: VirtualMachineInstance
    ) -> KubeError | None:
        """End a VMI as it was seen: one that somebody has taken out of the set meanwhile stays.

        The refusal, or None; `words` begin the event.
        """
        meta, owner = vmi.metadata, replica_set.metadata.uid
        as_seen = Preconditions(uid=meta.uid, resource_version=meta.resource_version)
        try:
            left = self._client.delete(VirtualMachineInstance, meta.namespace, meta.name, as_seen)
        except NotFound:
            self._ended.setdefault(owner, set()).add(meta.uid)
            return None
        except Conflict as error:
            self.look_at(vmi)
            return error
        except KubeError as error:
            self._unsure.setdefault(owner, []).append(vmi)
            if not is_passing(error):
                message = f"Error deleting virtual machine instance {meta.name}: {error}"
                self._events.record(replica_set, "Warning", FAILED_DELETE, message)
            return error
        if left is None:
            self._ended.setdefault(owner, set()).add(meta.uid)
        else:
            self._vmis.observe(left)
        self._events.record(replica_set, "Normal", "SuccessfulDelete", f"{words} {meta.uid}")
        return None

    def ask_about_unsure(self, replica_set: VirtualMachineInstanceReplicaSet) -> None:
        """Learn what became of VMIs whose creation or deletion was not answered, as they are to be counted."""
        owner = replica_set.metadata.uid
        while self._unsure.get(owner):
            vmi = self._unsure[owner][-1]
            found = self.look_at(vmi)
            if found is None or found.metadata.uid != vmi.metadata.uid:
                self._ended.setdefault(owner, set()).add(vmi.metadata.uid)
            self._unsure[owner].pop()
        self._unsure.pop(owner, None)
        for name, vmi in list(self._maybe_made.get(owner, {}).items()):
            if self.look_at(vmi) is not None:
                del self._maybe_made[owner][name]

    def look_at(self, vmi: VirtualMachineInstance) -> VirtualMachineInstance | None:
        """The VMI of that name as the server has it, which the cache has then, too."""
        try:
            found = self._client.get(VirtualMachineInstance, vmi.metadata.namespace, vmi.metadata.name)
        except NotFound:
            return None
        self._vmis.observe(found)
        return found
