"""Keeps the KubeVirt object's status true, and makes the object when there is none.

Run by the controller role. Which configuration is in force is the follower's to say; this loop only tells of it.
KubeVirt's operator takes a deletion as its own end. Ours is taken off by `kvedge uninstall`, which leaves the object:
while we run, one that was deleted comes back with defaults, so that there always is one that tells what holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

from msgspec import Struct

from kvedge.controller.kubevirt.kubevirt_status import Health, Release, events_of, plan_status, status_patch
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.moves.workload_updates import is_outdated
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.kubevirt import DEFAULT_NAME, KubeVirt
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# How often it is seen whether api and nodes are there; more often until they first were.
_LOOK_SECONDS: Final = 30.0
_FIRST_LOOKS_SECONDS: Final = 1.0
# The namespace of the object is made by the api role, which may start after us.
_RETRY_SECONDS: Final = 2.0
# After a deletion another object may be about to come: by `kubectl replace --force`, or under another name.
_REPLACE_SECONDS: Final = 15.0
_ASK_SECONDS: Final = 5.0
_DISCOVERY: Final = "/apis/subresources.kubevirt.io/v1"
# No object's: whether there is any.
_ANY: Final = Key(SYSTEM_NAMESPACE, "")


class KubeVirtSources(Struct, frozen=True):
    """What the loop works with."""

    client: KubeClient
    follower: ConfigurationFollower
    vmis: Informer[VirtualMachineInstance]
    events: EventRecorder
    clock: Clock
    # Whether any node's handler is ready to run VMs.
    has_node: Callable[[], bool]
    # The versions of all nodes' handlers by the nodes' names; empty for one that does not tell.
    versions: Callable[[], Mapping[str, str]]
    # What is to be told of launchers of other releases.
    launchers: Callable[[], Condition | None]
    # What is to be said of nodes that fence themselves, by the object's annotations.
    fencing: Callable[[Mapping[str, str]], Condition | None] = lambda annotations: None


class KubeVirtLoop:
    """One worker over all KubeVirt objects, of which one counts."""

    def __init__(self, sources: KubeVirtSources, release: Release) -> None:
        self._client = sources.client
        self._hurried = sources.client.hurry(_ASK_SECONDS)
        self._follower = sources.follower
        self._vmis = sources.vmis
        self._events = sources.events
        self._clock = sources.clock
        self._has_node = sources.has_node
        self._versions = sources.versions
        self._launchers = sources.launchers
        self._fencing = sources.fencing
        self._release = release
        # Until when the last one that was deleted may be replaced.
        self._wait_until = 0.0
        self.loop = ReconcileLoop("kubevirt", self.reconcile)

    def start(self) -> None:
        """Begin; the object is made when there is none."""
        self._follower.informer.on_change(self._on_kubevirt)
        self.loop.add(_ANY)
        self.loop.start()

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def look_again(self) -> None:
        """Something that the object tells has changed."""
        for item in self._follower.informer.list():
            self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one object."""
        if key == _ANY:
            return self._ensure_one()
        kubevirt = self._follower.informer.get(*key)
        if kubevirt is None:
            return None
        health = self._judge_health(kubevirt)
        wanted = plan_status(kubevirt, self._follower.in_force, health, self._release, self._clock.now())
        patch = status_patch(kubevirt, wanted)
        if patch is not None:
            for told in events_of(kubevirt.status, wanted):
                kind = cast("Literal['Normal', 'Warning']", told.type)
                self._events.record(kubevirt, kind, told.reason, told.message)
            try:
                changed = self._client.patch(
                    KubeVirt, *key, at_version(patch, kubevirt.metadata.resource_version), "status"
                )
            except NotFound:
                return None
            self._follower.informer.observe(changed)
        return Again(_FIRST_LOOKS_SECONDS if health.problems else _LOOK_SECONDS)

    def _ensure_one(self) -> Again | None:
        if not self._follower.informer.wait_synced(0):
            return Again(_FIRST_LOOKS_SECONDS)
        if self._follower.informer.list():
            return None
        left = self._wait_until - self._clock.monotonic()
        if left > 0:
            return Again(left)
        metadata = ObjectMeta(name=DEFAULT_NAME, namespace=SYSTEM_NAMESPACE)
        try:
            made = self._client.create(KubeVirt(metadata=metadata, spec={"configuration": {}}))
        except AlreadyExists:
            return None
        except (NotFound, Forbidden):
            return Again(_RETRY_SECONDS)
        log.info("made the KubeVirt object", extra={"facts": {"object": f"{SYSTEM_NAMESPACE}/{DEFAULT_NAME}"}})
        self._follower.informer.observe(made)
        return None

    def _judge_health(self, kubevirt: KubeVirt) -> Health:
        others = {node: version for node, version in self._versions().items() if version != self._release.version}
        fencing = self._fencing(kubevirt.metadata.annotations)
        outdated, launchers = self._count_outdated(), self._launchers()
        return Health(self._api_answers(), self._has_node(), outdated, others, launchers, fencing)

    def _api_answers(self) -> bool:
        """Through the API server, as users reach it; without the right to ask nothing is claimed."""
        try:
            self._hurried.request("GET", _DISCOVERY)
        except Forbidden:
            return True
        except KubeError:
            return False
        return True

    def _count_outdated(self) -> int:
        """VMIs whose launcher runs another release, as their handlers found."""
        return sum(is_outdated(vmi, self._release.version) for vmi in self._vmis.list())

    def _on_kubevirt(self, old: KubeVirt | None, new: KubeVirt | None) -> None:
        if new is not None and old is not None and old.metadata.generation == new.metadata.generation:
            self.loop.add(Key(new.metadata.namespace, new.metadata.name))
            return
        if new is None:
            self._wait_until = self._clock.monotonic() + _REPLACE_SECONDS
            self.loop.add(_ANY)
        # Which one counts may have changed with it.
        self.look_again()
