"""Looks at everything the table of alarms speaks of, again and again, and keeps what is raised.

Run by the controller role. Reads its informers and lists what keeps VMs; writes one ConfigMap, the condition `Alarm` of
VMs and nodes, and events. It asks no launcher and no host: handlers say in their Node's annotation how their host is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.controller.alarms.alarm_conditions import group_by_name, plan_conditions, plan_node_condition
from kvedge.controller.alarms.alarm_sightings import World, remember, see_all
from kvedge.controller.node.node_loop import NodeLoop
from kvedge.kube.errors import AlreadyExists, Conflict, NotFound
from kvedge.kube.events import EventRecorder, EventType
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import StrategicPatch, at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.alarms.alarm_names import ALARMS_CONFIG
from kvedge.resources.alarms.alarm_record import AlarmRecord, make_config, read_record, record_data
from kvedge.resources.alarms.alarm_state import Alarm, Turn, next_turn
from kvedge.resources.codec import encode
from kvedge.resources.disks.protection_problems import PROBLEM_KINDS
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import HEARTBEAT, SYSTEM_NAMESPACE
from kvedge.resources.types.core import ConfigMap, Node
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import is_paused
from kvedge.runtime.clock import Clock, seconds_since

log = logging.getLogger(__name__)

CLEARED: Final = "AlarmCleared"
_PERIOD_SECONDS: Final = 20.0
_SOON_SECONDS: Final = 1.0
_ALL: Final = Key("", "")
_OF_HANDLER: Final = "its handler has said nothing for five minutes"
# The kinds that events are recorded of.
_KINDS: Final[Mapping[str, Any]] = {
    each.KIND.kind: each
    for each in (VirtualMachine, VirtualMachineInstance, Node, PersistentVolumeClaim, *PROBLEM_KINDS)
}


class AlarmSources(Struct, frozen=True):
    """The informers, which somebody else starts, and the writers."""

    client: KubeClient
    vms: Informer[VirtualMachine]
    vmis: Informer[VirtualMachineInstance]
    nodes: Informer[Node]
    claims: Informer[PersistentVolumeClaim]
    node_loop: NodeLoop
    events: EventRecorder
    clock: Clock


class AlarmLoop:
    """One worker, one key: a look at everything."""

    def __init__(
        self, sources: AlarmSources, board: AlarmBoard, receivers: Callable[[], Collection[str]] = tuple
    ) -> None:
        """`receivers` are the names of those who are told; the informers have not been started yet."""
        self._client = sources.client
        self._vms, self._vmis = sources.vms, sources.vmis
        self._nodes, self._claims = sources.nodes, sources.claims
        self._node_loop = sources.node_loop
        self._events = sources.events
        self._clock = sources.clock
        self._board = board
        self._receivers = receivers
        self._skews: dict[str, float] = {}
        # What is written, with its version; None before it was read.
        self._kept: tuple[AlarmRecord, str] | None = None
        self._left_out = 0
        self.loop = ReconcileLoop("alarms", self.reconcile)
        board.on_told(lambda: self.loop.add(_ALL))
        sources.nodes.on_change(self._on_node)
        sources.vmis.on_change(self._on_vmi)

    def start(self) -> None:
        """Begin to look."""
        self.loop.add(_ALL)
        self.loop.start()

    def stop(self) -> None:
        """End the worker."""
        self.loop.stop()

    def failure(self) -> str | None:
        """Why it no longer works, or None."""
        return self.loop.failure()

    def reconcile(self, key: Key) -> Again:
        """One look."""
        if not all(each.wait_synced(0) for each in (self._vms, self._vmis, self._nodes, self._claims)):
            return Again(_SOON_SECONDS)
        record, version = self._read()
        now = self._clock.now()
        world = self._look_around(record)
        turn = next_turn(self._board.take_told(record.alarms), see_all(world), self._receivers(), now)
        after = AlarmRecord(turn.alarms, remember(world))
        if not self._write(record, after, version):
            return Again(_SOON_SECONDS)
        self._tell(turn)
        self._board.publish(after.alarms)
        return Again(_PERIOD_SECONDS if self._show(after.firing) else _SOON_SECONDS)

    def _look_around(self, record: AlarmRecord) -> World:
        nodes = self._nodes.list()
        return World(
            self._clock.now(),
            self._vms.list(),
            self._vmis.list(),
            nodes,
            self._claims.list(),
            list(self._list_protection()),
            {node.metadata.name: self._find_trouble(node) for node in nodes},
            dict(self._skews),
            record.memory,
        )

    def _list_protection(self) -> Iterator[Any]:
        for kind in PROBLEM_KINDS:
            try:
                yield from self._client.list(kind)
            except NotFound:
                # The api role of a cluster that is being upgraded may bring the kind later.
                continue

    def _find_trouble(self, node: Node) -> str:
        state = self._node_loop.state(node.metadata.name)
        # One without a handler of ours is not ours to watch.
        if state is None or HEARTBEAT not in node.metadata.annotations:
            return ""
        return state.trouble or (_OF_HANDLER if state.unresponsive else "")

    def _read(self) -> tuple[AlarmRecord, str]:
        if self._kept is None:
            try:
                config = self._client.get(ConfigMap, SYSTEM_NAMESPACE, ALARMS_CONFIG)
            except NotFound:
                self._kept = AlarmRecord(), ""
            else:
                self._kept = read_record(config), config.metadata.resource_version
        return self._kept

    def _write(self, before: AlarmRecord, after: AlarmRecord, version: str) -> bool:
        """Whether it is written down: what is told before that might be told again."""
        data = record_data(after)
        if version and data == record_data(before):
            self._kept = after, version
            return True
        try:
            if version:
                patch = at_version({"data": data}, version)
                written = self._client.patch(ConfigMap, SYSTEM_NAMESPACE, ALARMS_CONFIG, patch)
            else:
                written = self._client.create(make_config(after))
        except (Conflict, NotFound, AlreadyExists):
            # Another controller was here, or somebody has removed it.
            self._kept = None
            return False
        self._kept = after, written.metadata.resource_version
        return True

    def _tell(self, turn: Turn) -> None:
        for alarm in turn.raised:
            log.warning("alarm", extra={"facts": _facts(alarm)})
            self._record(alarm, "Warning", alarm.rule, alarm.message)
        for alarm in turn.resolved:
            log.info("alarm is over", extra={"facts": _facts(alarm)})
            self._record(alarm, "Normal", CLEARED, f"{alarm.rule} is over: {alarm.message}")
        if turn.left_out and not self._left_out:
            log.warning("there are more alarms than are kept", extra={"facts": {"left_out": turn.left_out}})
        self._left_out = turn.left_out

    def _record(self, alarm: Alarm, type_: EventType, reason: str, message: str) -> None:
        kind = _KINDS.get(alarm.kind)
        if kind is not None:
            metadata = ObjectMeta(name=alarm.name, namespace=alarm.namespace, uid=alarm.uid)
            self._events.record(kind(metadata=metadata), type_, reason, message)

    def _show(self, firing: list[Alarm]) -> bool:
        """Whether all conditions are as they should be."""
        done = True
        now = self._clock.now()
        of_vms, of_nodes = group_by_name(firing, "VirtualMachine"), group_by_name(firing, "Node")
        for vm in self._vms.list():
            meta = vm.metadata
            wanted = plan_conditions(vm.status.conditions, of_vms.get((meta.namespace, meta.name), ()), now)
            if wanted is not None:
                body = {"status": {"conditions": [encode(each) for each in wanted]}}
                patch = at_version(body, meta.resource_version)
                try:
                    written = self._client.patch(VirtualMachine, meta.namespace, meta.name, patch, "status")
                except (Conflict, NotFound):
                    done = False
                else:
                    self._vms.observe(written)
        for node in self._nodes.list():
            name = node.metadata.name
            change = plan_node_condition(node.status.conditions, of_nodes.get(("", name), ()), now)
            if change is not None:
                try:
                    patched = self._client.patch(
                        Node, "", name, StrategicPatch({"status": {"conditions": [change]}}), "status"
                    )
                except NotFound:
                    continue
                self._nodes.observe(patched)
        return done

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._skews.pop(old.metadata.name, None)
            return
        before = "" if old is None else old.metadata.annotations.get(HEARTBEAT, "")
        beat = new.metadata.annotations.get(HEARTBEAT, "")
        # The first one that is seen may be old: only one that comes while we look was written just now.
        if before and beat != before:
            since = seconds_since(beat, self._clock.now())
            if since is not None:
                self._skews[new.metadata.name] = -since

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        if (old is not None and is_paused(old)) != (new is not None and is_paused(new)):
            self.loop.add(_ALL)


def _facts(alarm: Alarm) -> dict[str, str]:
    return {"rule": alarm.rule, "about": str(alarm.target), "message": alarm.message}
