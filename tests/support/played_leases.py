"""A server that has leases and nothing else, and that can be away; and a watchdog that resets nothing but records.

For tests of the two ends of fencing. Writes name a version, and meet Conflict, as with a real server.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Unavailable
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.node_loss.node_lease import NodeFence, lease_name, read_fence
from kvedge.resources.types.core import ConfigMap


@dataclass
class PlayedLeases:
    """What `KubeClient` has, for leases."""

    items: dict[str, ConfigMap] = field(default_factory=dict)
    # What each call fails with.
    failure: KubeError | None = None
    # What each write fails with.
    refusal: KubeError | None = None
    # A write is done, and its answer is lost.
    loses_answers: bool = False
    writes: int = 0
    _version: int = 0

    def hurry(self, seconds: float) -> PlayedLeases:
        return self

    def get(self, cls: type[ConfigMap], namespace: str, name: str) -> ConfigMap:
        self._answer()
        if name not in self.items:
            raise NotFound(0, "", "no such lease")
        return self._copy(self.items[name])

    def create(self, lease: ConfigMap) -> ConfigMap:
        self._answer(writes=True)
        if lease.metadata.name in self.items:
            raise AlreadyExists(0, "", "there is one")
        return self._put(self._copy(lease))

    def patch(self, cls: type[ConfigMap], namespace: str, name: str, patch: MergePatch) -> ConfigMap:
        self._answer(writes=True)
        body = patch.body
        if name not in self.items:
            raise NotFound(0, "", "no such lease")
        if body["metadata"]["resourceVersion"] != self.items[name].metadata.resource_version:
            raise Conflict(0, "", "another version")
        return self._put(decode(ConfigMap, _merge(encode(self.items[name]), body)))

    def touch(self, name: str) -> None:
        """Somebody else writes."""
        self._put(self._copy(self.items[name]))

    def fence(self, node: str) -> NodeFence:
        """What a node's lease says."""
        return read_fence(self.items[lease_name(node)])

    def _put(self, lease: ConfigMap) -> ConfigMap:
        self._version += 1
        self.writes += 1
        lease.metadata.resource_version = str(self._version)
        self.items[lease.metadata.name] = lease
        if self.loses_answers:
            raise Unavailable(0, "", "no answer")
        return self._copy(lease)

    def _copy(self, lease: ConfigMap) -> ConfigMap:
        return decode(ConfigMap, encode(lease))

    def _answer(self, *, writes: bool = False) -> None:
        if self.failure is not None:
            raise self.failure
        if writes and self.refusal is not None:
            raise self.refusal


@dataclass
class PlayedWatchdog:
    """An armed one, by the test's clock."""

    seconds: int
    fed: int = 1
    name: str = "played"
    is_open: bool = True
    is_running: bool = True

    def feed(self) -> None:
        assert self.is_open
        self.fed += 1

    def disarm(self) -> None:
        self.is_open = self.is_running = False

    def leave(self) -> None:
        self.is_open = False


def _merge(old: JsonObject, patch: JsonObject) -> JsonObject:
    made = dict(old)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            made[key] = _merge(made.get(key) or {}, value)
        else:
            made[key] = value
    return made
