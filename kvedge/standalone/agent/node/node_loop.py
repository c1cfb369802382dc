"""Keeps this box's Node object and its Lease.

Started by the node agent. One named thread; woken when the devices change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from kvedge.kube.errors import AlreadyExists, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, StrategicPatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.cluster import Lease, LeaseSpec
from kvedge.resources.types.core import Node, NodeSpec
from kvedge.runtime.address_ranges import address_ranges
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock, rfc3339_micro
from kvedge.standalone.agent.node.node_manifest import HostFacts, has_guestfs, node_labels, node_status, read_huge_pages
from kvedge.standalone.agent.pod.place.device_manager import DeviceManager

log = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_RENEW_SECONDS: Final = 10.0
# The kubelet writes an unchanged status this often.
_STATUS_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 2.0


class NodeLoop:
    """One Node, its status and its Lease."""

    def __init__(
        self,
        client: KubeClient,
        facts: HostFacts,
        pod_cidr: str,
        devices: DeviceManager,
        notes: Callable[[], list[str]],
        clock: Clock,
    ) -> None:
        self._client = client
        self._facts = facts
        self._pod_cidr = pod_cidr
        self._devices = devices
        self._notes = notes
        self._clock = clock
        self._changed = threading.Condition()
        self._dirty = False
        self._stopping = False
        self._thread: BackgroundThread | None = None
        self._written: JsonObject = {}
        self._written_at = 0.0

    def start(self) -> None:
        """Write the Node once, so that Pods can be bound, then keep it.

        Raises:
            KubeError: when the API does not take it.
        """
        self._ensure_node()
        self._write_status()
        self._thread = BackgroundThread("node", self._run)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the Node stays as it is, as its VMs do."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def note_change(self) -> None:
        """The devices have changed: write the status soon."""
        with self._changed:
            self._dirty = True
            self._changed.notify_all()

    def failure(self) -> str | None:
        """Why the Node is no longer kept, or None."""
        return None if self._stopping or self._thread is None else self._thread.failure()

    def _run(self) -> None:
        wait = 0.0
        while self._wait(wait):
            if self._thread is not None:
                self._thread.heartbeat.beat()
            try:
                self._write_lease()
                self._write_status()
                wait = _RENEW_SECONDS
            except NotFound:
                # Somebody deleted the Node: it is still here.
                wait = self._try_again(self._ensure_node)
            except KubeError as error:
                log.warning("the node's status was not written", extra={"facts": {"error": str(error)}})
                wait = _RETRY_SECONDS

    def _try_again(self, action: Callable[[], None]) -> float:
        self._written = {}
        try:
            action()
        except KubeError as error:
            log.warning("the node was not written", extra={"facts": {"error": str(error)}})
        return _RETRY_SECONDS

    def _wait(self, seconds: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._dirty, seconds)
            self._dirty = False
            return not self._stopping

    def _ensure_node(self) -> None:
        name, labels = self._facts.name, node_labels(self._facts, guestfs=has_guestfs())
        ranges = address_ranges(self._pod_cidr).all
        node = Node(
            metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(pod_cidr=ranges[0], pod_cidrs=list(ranges))
        )
        try:
            self._client.create(node)
        except AlreadyExists:
            self._client.patch(Node, "", name, MergePatch({"metadata": {"labels": labels}}))

    def _write_status(self) -> None:
        devices = (self._devices.capacity(), self._devices.allocatable())
        known = self._written.get("conditions", [])
        if not known:
            known = self._client.get(Node, "", self._facts.name).status.conditions
        status = node_status(self._facts, devices, read_huge_pages(), known, self._notes(), self._clock.now())
        if _without_heartbeat(status) == _without_heartbeat(self._written) and self._is_fresh():
            return
        # A resource whose plugin is gone must not stay, which a merge patch only does for what it names.
        gone = {name: None for name in self._written.get("capacity", {}) if name not in status["capacity"]}
        patch = {**status, "capacity": status["capacity"] | gone, "allocatable": status["allocatable"] | gone}
        # Strategic, as others have conditions of their own on the Node.
        self._client.patch(Node, "", self._facts.name, StrategicPatch({"status": patch}), "status")
        self._written, self._written_at = status, time.monotonic()

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._written_at < _STATUS_SECONDS

    def _write_lease(self) -> None:
        name, now = self._facts.name, rfc3339_micro(self._clock.now())
        try:
            self._client.patch(Lease, LEASE_NAMESPACE, name, MergePatch({"spec": {"renewTime": now}}))
        except NotFound:
            spec = LeaseSpec(holder_identity=name, lease_duration_seconds=_LEASE_SECONDS, renew_time=now)
            self._client.create(Lease(metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE), spec=spec))


def _without_heartbeat(status: JsonObject) -> JsonObject:
    conditions = [
        {key: value for key, value in item.items() if key != "lastHeartbeatTime"}
        for item in status.get("conditions", [])
    ]
    return {**status, "conditions": conditions}
