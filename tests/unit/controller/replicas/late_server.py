"""A small model of an API server with one ReplicaSet, whose watches come late and whose answers get lost.

For the tests of the set's loop. The caches are the real ones of informers, fed by hand.
"""

from __future__ import annotations

import copy
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from unittest.mock import MagicMock

from kvedge.controller.replicas.replica_loop import ReplicaLoop, ReplicaSources
from kvedge.controller.replicas.replica_plan import is_active
from kvedge.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import Preconditions
from kvedge.kube.object_cache import ObjectCache
from kvedge.kube.patches import MergePatch
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.scaling.replica_sets import VirtualMachineInstanceReplicaSet
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import patched
from tests.support.clocks import FakeClock
from tests.unit.controller.replicas.test_replica_plan import a_set

KEY: Final = Key("default", "web")
MOMENT: Final = "2026-01-02T03:00:00Z"


class LateCache:
    """What an informer knows: what was delivered, and own writes."""

    def __init__(self) -> None:
        self._cache: ObjectCache[Any] = ObjectCache()
        self.pending: deque[tuple[Any, bool]] = deque()

    def get(self, namespace: str, name: str) -> Any:
        return self._cache.get(namespace, name)

    def find_owned_by(self, uid: str) -> Sequence[Any]:
        return self._cache.find_indexed("owner", uid)

    def find_indexed(self, index: str, value: str) -> Sequence[Any]:
        return self._cache.find_indexed(index, value)

    def add_index(self, index: str, values: Callable[[Any], Iterable[str]]) -> None:
        self._cache.add_index(index, values)

    def on_change(self, callback: Any) -> None:
        """Nobody is woken here: the tests call the loop."""

    def observe(self, item: Any) -> None:
        self._cache.take_own(item)

    def deliver(self, number: int | None = None) -> None:
        """The watch tells the next changes; all of them without a number."""
        for _ in range(len(self.pending) if number is None else min(number, len(self.pending))):
            self._cache.take(*self.pending.popleft())


class LateServer:
    """The server, and the client of the loop. With `moods`, calls are refused, and answers get lost."""

    def __init__(self, replicas: int, moods: random.Random | None = None) -> None:
        self._lock = threading.RLock()
        self._moods = moods
        self.version = 100
        self.sets, self.vmis = LateCache(), LateCache()
        self.replica_set = a_set(replicas)
        self.live: dict[str, VirtualMachineInstance] = {}
        self.created = self.deleted_active = 0
        self.clock = FakeClock()
        self.events = MagicMock()
        self.replica_set.metadata.resource_version = "100"
        self.sets.pending.append((copy.deepcopy(self.replica_set), False))
        self.restart()

    def restart(self) -> None:
        """Another controller takes over, which has listed everything."""
        self.sets.deliver()
        self.vmis.deliver()
        sources = ReplicaSources(self, self.sets, self.vmis, self.events, self.clock)  # type: ignore[arg-type]
        self.loop = ReplicaLoop(sources)

    def turn(self) -> KubeError | None:
        """One pass; time goes on, so that nothing waits."""
        self.clock.seconds += 120
        try:
            self.loop.reconcile(KEY)
        except KubeError as error:
            return error
        return None

    def settle(self) -> None:
        """All is well from now on, and everything is delivered."""
        self._moods = None
        for _ in range(20):
            self.sets.deliver()
            self.vmis.deliver()
            self.turn()
            self.end_deleted()

    def active(self) -> list[VirtualMachineInstance]:
        return [vmi for vmi in self.live.values() if is_active(vmi) and vmi.metadata.controller_reference() is not None]

    # What others do.

    def scale(self, replicas: int) -> None:
        self.replica_set.spec.replicas = replicas
        self._changed_set()

    def change(self, vmi: VirtualMachineInstance, **fields: Any) -> None:
        """Set its phase, its labels, its deletion timestamp."""
        if "phase" in fields:
            vmi.status.phase = fields["phase"]
        if "labels" in fields:
            vmi.metadata.labels = fields["labels"]
        if "deletion_timestamp" in fields:
            vmi.metadata.deletion_timestamp = fields["deletion_timestamp"]
        self._changed(vmi)

    def end_deleted(self) -> None:
        """Guests that were asked to end have ended."""
        for vmi in list(self.live.values()):
            if vmi.metadata.deletion_timestamp is not None:
                self._remove(vmi)

    # The client.

    def get(self, cls: type, namespace: str, name: str) -> Any:
        with self._lock:
            if cls is VirtualMachineInstanceReplicaSet:
                return copy.deepcopy(self.replica_set)
            self._be_moody(before=True)
            if name not in self.live:
                raise NotFound(404, "NotFound", name)
            return copy.deepcopy(self.live[name])

    def create(self, vmi: VirtualMachineInstance) -> VirtualMachineInstance:
        with self._lock:
            self._be_moody(before=True)
            if vmi.metadata.name in self.live:
                raise AlreadyExists(409, "AlreadyExists", vmi.metadata.name)
            seen = self.sets.get(*KEY)
            assert len(self.active()) < seen.replicas, "one too many"
            self.created += 1
            made = copy.deepcopy(vmi)
            made.metadata.uid = f"uid-{self.created}"
            # Without a finalizer it goes at once when it is deleted.
            made.metadata.finalizers = ["f"] if self.created % 3 else []
            made.status.phase = "Pending"
            self.live[made.metadata.name] = made
            self._changed(made)
            self._be_moody(before=False)
            return copy.deepcopy(made)

    def patch(self, cls: type, namespace: str, name: str, patch: MergePatch, subresource: str = "") -> Any:
        with self._lock:
            self._be_moody(before=True)
            live: Any = self.replica_set if cls is VirtualMachineInstanceReplicaSet else self.live.get(name)
            if live is None:
                raise NotFound(404, "NotFound", name)
            if patch.body["metadata"]["resourceVersion"] != live.metadata.resource_version:
                raise Conflict(409, "Conflict", "it has changed")
            made = decode(cls, patched(encode(live), patch.body))
            if cls is VirtualMachineInstanceReplicaSet:
                self.replica_set = made
                self._changed_set()
            else:
                self.live[name] = made
                self._changed(made)
            self._be_moody(before=False)
            return copy.deepcopy(made)

    def delete(self, cls: type, namespace: str, name: str, as_seen: Preconditions) -> Any:
        with self._lock:
            self._be_moody(before=True)
            live = self.live.get(name)
            if live is None:
                raise NotFound(404, "NotFound", name)
            meta = live.metadata
            if (meta.uid, meta.resource_version) != (as_seen.uid, as_seen.resource_version):
                raise Conflict(409, "Conflict", "it is another one")
            self.deleted_active += is_active(live)
            if meta.finalizers:
                meta.deletion_timestamp = MOMENT
                self._changed(live)
            else:
                self._remove(live)
            self._be_moody(before=False)
            return copy.deepcopy(live) if meta.finalizers else None

    def _be_moody(self, *, before: bool) -> None:
        mood = 1.0 if self._moods is None else self._moods.random()
        if before and mood < 0.1:
            raise Forbidden(403, "Forbidden", "exceeded quota")
        if mood < 0.25:
            raise Unavailable(0, "", "no answer")

    def _changed(self, vmi: VirtualMachineInstance) -> None:
        self.version += 1
        vmi.metadata.resource_version = str(self.version)
        self.vmis.pending.append((copy.deepcopy(vmi), False))

    def _changed_set(self) -> None:
        self.version += 1
        self.replica_set.metadata.resource_version = str(self.version)
        self.sets.pending.append((copy.deepcopy(self.replica_set), False))

    def _remove(self, vmi: VirtualMachineInstance) -> None:
        del self.live[vmi.metadata.name]
        self.version += 1
        gone = copy.deepcopy(vmi)
        gone.metadata.resource_version = str(self.version)
        self.vmis.pending.append((gone, True))
