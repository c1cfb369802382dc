"""A small API server with VMIs, migrations, Pods and policies, for the tests of the migrations' loop.

The caches are those of informers. Each hears of a change when the test says so, and of the loop's own writes at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from unittest.mock import MagicMock

from kvedge.controller.migrations.migration_loop import MigrationLoop
from kvedge.controller.migrations.target_creation import MigrationSources
from kvedge.controller.vmi.claim_holders import ClaimHolders
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.kube_client import Preconditions
from kvedge.kube.object_cache import ObjectCache
from kvedge.kube.patches import MergePatch
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.configuration.configuration import Migrations
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import APP
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.migrations import MigrationPolicy, VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, patched
from tests.support.clocks import FakeClock

KINDS = (
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    Pod,
    MigrationPolicy,
    Node,
    PersistentVolumeClaim,
    VirtualMachine,
)


class Cache:
    """What an informer knows of a kind."""

    def __init__(self) -> None:
        self._cache: ObjectCache[Any] = ObjectCache()
        self._callbacks: list[Callable[[Any, Any], None]] = []

    def on_change(self, callback: Callable[[Any, Any], None]) -> None:
        self._callbacks.append(callback)

    def get(self, namespace: str, name: str) -> Any:
        return self._cache.get(namespace, name)

    def list(self) -> Sequence[Any]:
        return self._cache.list()

    def find_owned_by(self, uid: str) -> Sequence[Any]:
        return self._cache.find_indexed("owner", uid)

    def find_indexed(self, index: str, value: str) -> Sequence[Any]:
        return self._cache.find_indexed(index, value)

    def add_index(self, index: str, values: Callable[[Any], Iterable[str]]) -> None:
        self._cache.add_index(index, values)

    def observe(self, item: Any) -> None:
        self._cache.take_own(copy.deepcopy(item))

    def hear(self, item: Any, *, gone: bool) -> None:
        change = self._cache.take(copy.deepcopy(item), gone)
        if change is not None:
            for callback in self._callbacks:
                callback(*change)


class SmallServer:
    """The server, and the client of the loop."""

    def __init__(self, limits: Migrations | None = None, versions: Mapping[str, str] | None = None) -> None:
        self.live: dict[tuple[type, str], Any] = {}
        self.gone: list[Any] = []
        self.caches = {kind: Cache() for kind in KINDS}
        self.attachments = Cache()
        self.version = 100
        self.refuses: KubeError | None = None
        # Of a VMI's migrationState: what the CRD does not have, so that it is dropped from each write.
        self.drops: set[str] = set()
        self.clock, self.events = FakeClock(), MagicMock()
        self.holders = ClaimHolders(self.caches[VirtualMachineInstance], self.caches[Pod], Cache())  # type: ignore[arg-type]
        sources = MigrationSources(
            self,  # type: ignore[arg-type]
            *(self.caches[kind] for kind in (VirtualMachineInstanceMigration, MigrationPolicy)),  # type: ignore[arg-type]
            *(self.caches[kind] for kind in (VirtualMachineInstance, Pod, PersistentVolumeClaim)),  # type: ignore[arg-type]
            attachments=self.attachments,  # type: ignore[arg-type]
            nodes=self.caches[Node],  # type: ignore[arg-type]
            holders=self.holders,
            events=self.events,
            clock=self.clock,
            versions=lambda: versions or {},
            limits=lambda: limits or Migrations(),
            config=lambda: CONFIG,
        )
        self.loop = MigrationLoop(sources)

    # What a test does.

    def put(self, item: Any) -> Any:
        """An object that somebody has made or changed; no cache knows yet."""
        self.version += 1
        item.metadata.resource_version = str(self.version)
        self.live[type(item), item.metadata.name] = item
        return item

    def remove(self, item: Any) -> None:
        self.gone.append(self.live.pop((type(item), item.metadata.name)))

    def tell(self) -> None:
        """All caches hear of all."""
        for item in self.live.values():
            self._cache_of(item).hear(item, gone=False)
        for item in self.gone:
            self._cache_of(item).hear(item, gone=True)
        self.gone = []

    def _cache_of(self, item: Any) -> Cache:
        is_attachment = item.metadata.labels.get(APP) == ATTACHMENT_APP
        return self.attachments if is_attachment else self.caches[type(item)]

    def turn(self, name: str) -> Again | None:
        """One pass for a migration; the answer of the queue is a new one."""
        self.clock.seconds += 1
        return self.loop.reconcile(Key("default", name))

    def find(self, kind: type, name: str) -> Any:
        return self.live.get((kind, name))

    def waiting(self) -> set[Key]:
        """What the changes that the caches heard of put into the loop's queue; it is empty then."""
        queue, found = self.loop.loop.queue, set()
        while len(queue) and (key := queue.take(0)) is not None:
            queue.finish(key)
            found.add(key)
        return found

    def pods(self) -> list[Pod]:
        return [item for (kind, _), item in self.live.items() if kind is Pod]

    def told(self) -> list[tuple[str, str, str]]:
        return [call.args[1:] for call in self.events.record.call_args_list]

    # The client.

    def get(self, cls: type, namespace: str, name: str) -> Any:
        found = self.live.get((cls, name))
        if found is None:
            raise NotFound(404, "NotFound", name)
        return copy.deepcopy(found)

    def list(self, cls: type, namespace: str) -> list[Any]:
        found = [item for (kind, _), item in self.live.items() if kind is cls]
        return [copy.deepcopy(item) for item in found if item.metadata.namespace == namespace]

    def create(self, item: Any) -> Any:
        if self.refuses is not None:
            raise self.refuses
        if (type(item), item.metadata.name) in self.live:
            raise AlreadyExists(409, "AlreadyExists", item.metadata.name)
        made = decode(type(item), encode(item))
        made.metadata.uid = f"uid-of-{made.metadata.name}"
        return copy.deepcopy(self.put(made))

    def patch(self, cls: type, namespace: str, name: str, patch: MergePatch, subresource: str = "") -> Any:
        made = self.try_patch(cls, namespace, name, patch)
        self.put(made)
        if not made.metadata.is_left:
            self.remove(made)
        return copy.deepcopy(made)

    def try_patch(self, cls: type, namespace: str, name: str, patch: MergePatch) -> Any:
        found = self.get(cls, namespace, name)
        if patch.body["metadata"]["resourceVersion"] != found.metadata.resource_version:
            raise Conflict(409, "Conflict", name)
        body = patched(encode(found), patch.body)
        state = body.get("status", {}).get("migrationState", {})
        for field in self.drops & set(state):
            del state[field]
        return decode(cls, body)

    def delete(self, cls: type, namespace: str, name: str, preconditions: Preconditions) -> Any:
        found = self.live.get((cls, name))
        if found is None:
            raise NotFound(404, "NotFound", name)
        if found.metadata.uid != preconditions.uid:
            raise Conflict(409, "Conflict", name)
        self.remove(found)
        return None


def a_namespaced_node(name: str, host: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=name, labels={"kubernetes.io/hostname": host}))
