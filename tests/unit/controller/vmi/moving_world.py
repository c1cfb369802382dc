"""A small model of a guest that moves: two nodes, their handlers, an API server, and controllers with old views.

The handlers keep to the rules of `kvedge/launcher/migration/README.md`. What is modelled of the guest is where its QEMU
is, and whether it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.launcher_pods import is_moving, launcher_name, launcher_of
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_view import ConfirmPodLost, CreatePod, DeletePod, PatchVmi, VmiView
from kvedge.resources.codec import decode, encode
from kvedge.resources.names import MIGRATION_TARGET_NODE
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, a_pod, ended, patched
from tests.support.migrating import SOURCE, TARGET, a_migrating_vmi, a_target_pod


class Stale(Exception):
    """The server refuses what was planned on an old version."""


@dataclass
class Sight:
    """What one controller has seen last."""

    vmi: VirtualMachineInstance | None
    pods: list[Pod]


@dataclass
class MovingWorld:
    """`launchers` are the Pods' names whose processes live; `running` those in which the guest runs; `paused` those in
    which a whole one waits.
    """

    vmi: VirtualMachineInstance | None = field(default_factory=a_migrating_vmi)
    pods: dict[str, Pod] = field(default_factory=dict)
    launchers: set[str] = field(default_factory=lambda: {SOURCE, TARGET})
    running: set[str] = field(default_factory=lambda: {SOURCE})
    paused: set[str] = field(default_factory=set)
    # The last words: the guest left and did not end; it stays, and nothing begins any more.
    has_left: bool = False
    stays: bool = False
    dead_nodes: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    now: datetime = NOW
    podless_since: datetime | None = None
    version: int = 100

    def __post_init__(self) -> None:
        assert self.vmi is not None
        self.pods = {SOURCE: a_pod(self.vmi, "Running", "node-1"), TARGET: a_target_pod(self.vmi)}

    # Controllers.

    def see(self) -> Sight:
        vmi = None if self.vmi is None else decode(VirtualMachineInstance, encode(self.vmi))
        return Sight(vmi, [decode(Pod, encode(pod)) for pod in self.pods.values()])

    def work(self, sight: Sight) -> None:
        """One pass of a controller, as far as the server lets it."""
        if sight.vmi is None:
            return
        moving, launcher = is_moving(sight.vmi), launcher_of(sight.vmi, sight.pods)
        holders = sight.pods if moving else [launcher] if launcher is not None else []
        if any(not has_ended(pod) for pod in holders):
            self.podless_since = None
        else:
            self.podless_since = self.podless_since or self.now
        podless = (self.now - self.podless_since).total_seconds() if self.podless_since else 0.0
        view = VmiView(
            sight.vmi,
            sight.pods,
            podless,
            node=self._state(sight.vmi.status.node_name),
            was_ended=launcher_name(sight.vmi) in self.reported,
            was_target_ended=TARGET in self.reported,
            target_node=self._state("node-2"),
        )
        try:
            for action in plan_vmi(view, CONFIG, self.now).actions:
                self._do(sight, action)
        except Stale:
            return

    def _state(self, node: str) -> NodeState | None:
        return None if node in self.dead_nodes else NodeState(node)

    def _do(self, sight: Sight, action: object) -> None:
        assert not isinstance(action, CreatePod), "a second run"
        match action:
            case PatchVmi(body):
                self._check_version(sight)
                assert self.vmi is not None
                made = decode(VirtualMachineInstance, patched(encode(self.vmi), body))
                self._store(made)
                if made.metadata.deletion_timestamp is not None and not made.metadata.finalizers:
                    self.vmi = None
                raise Stale  # One write: what comes after it is planned anew.
            case DeletePod(pod):
                live = self.pods.get(pod.metadata.name)
                if live is not None and live.metadata.uid == pod.metadata.uid:
                    self._delete(live)
            case ConfirmPodLost(known):
                if any(pod.metadata.uid not in known for pod in self.pods.values()):
                    raise Stale

    def _check_version(self, sight: Sight) -> None:
        assert sight.vmi is not None
        if self.vmi is None or self.vmi.metadata.resource_version != sight.vmi.metadata.resource_version:
            raise Stale

    def _store(self, vmi: VirtualMachineInstance) -> None:
        self.version += 1
        vmi.metadata.resource_version = str(self.version)
        self.vmi = vmi

    def _delete(self, pod: Pod) -> None:
        if has_ended(pod):
            del self.pods[pod.metadata.name]
        else:
            pod.metadata.deletion_timestamp = rfc3339(self.now)

    # The guest and its launchers.

    def guest_moves(self) -> None:
        """All has come: the source's QEMU ends, the target's waits."""
        if self.vmi is None or not is_moving(self.vmi) or self.stays:
            return
        if SOURCE in self.running and TARGET in self.launchers:
            self.running.discard(SOURCE)
            self.paused.add(TARGET)
            self.has_left = True

    def end_launcher(self, name: str) -> None:
        """A launcher's process ends, and what it held."""
        self.launchers.discard(name)
        self.running.discard(name)
        self.paused.discard(name)

    def kubelets_work(self) -> None:
        """Launchers that are to end do so; ended ones are reported."""
        for name, pod in list(self.pods.items()):
            if pod.spec.node_name in self.dead_nodes:
                del self.pods[name]
                continue
            if pod.metadata.deletion_timestamp is not None:
                self.end_launcher(name)
            if name not in self.launchers and not has_ended(pod):
                pod.status.phase = "Succeeded"
                pod.status.container_statuses[0].state = ended("Succeeded")
                self.reported.add(name)
            if pod.metadata.deletion_timestamp is not None:
                del self.pods[name]

    def kubelets_end_what_is_forgotten(self) -> None:
        """In their time, and without a report: there is no Pod to write it on."""
        for name in self.launchers - set(self.pods):
            self.end_launcher(name)

    def node_dies(self, node: str) -> None:
        """With all that runs there; its Node is deleted."""
        self.dead_nodes.add(node)
        self.end_launcher(SOURCE if node == "node-1" else TARGET)

    def is_forgotten(self, name: str) -> None:
        """A Pod is deleted by force; what runs goes on."""
        self.pods.pop(name, None)

    # The handlers.

    def source_speaks(self) -> None:
        """Its last word, written before the launcher may go; a launcher that ended by itself is told of as well."""
        state = self._open_state()
        if state is None or "node-1" in self.dead_nodes:
            return
        if self.has_left:
            self._write(source_node_domain_gone_timestamp=rfc3339(self.now))
            self.end_launcher(SOURCE)
        elif SOURCE not in self.launchers:
            self.stays = True
            self._write(failed=True, completed=True, end_timestamp=rfc3339(self.now), failure_reason="ended")
            assert self.vmi is not None
            if not self.vmi.is_final:
                self.vmi.status.phase = "Failed"

    def source_stays(self) -> None:
        """It gives up: the guest stays."""
        if self._open_state() is not None and "node-1" not in self.dead_nodes and SOURCE in self.running:
            self.stays = True
            self._write(failed=True, completed=True, end_timestamp=rfc3339(self.now), failure_reason="aborted")

    def target_rules(self) -> None:
        """The arbiter: lets go on what has come, once the source is known to be off."""
        state = self._open_state()
        if state is None or "node-2" in self.dead_nodes:
            return
        if TARGET in self.running:
            self._complete()
        elif state.source_node_domain_gone_timestamp or state.source_pod_gone_timestamp:
            if TARGET in self.paused:
                self.paused.discard(TARGET)
                self.running.add(TARGET)
            elif TARGET not in self.launchers or state.source_pod_gone_timestamp:
                self.end_launcher(TARGET)
                self._write(failed=True, completed=True, end_timestamp=rfc3339(self.now), failure_reason="lost")

    def _complete(self) -> None:
        self._write(completed=True, end_timestamp=rfc3339(self.now))
        assert self.vmi is not None
        self.vmi.status.node_name = "node-2"
        self.vmi.metadata.labels.pop(MIGRATION_TARGET_NODE, None)

    def owner_reports_its_end(self) -> None:
        """The handler of the VMI's node: its launcher has ended, and no migration is open."""
        if self.vmi is None or self.vmi.is_final or is_moving(self.vmi):
            return
        if launcher_name(self.vmi) not in self.launchers and self.vmi.status.node_name not in self.dead_nodes:
            self.vmi.status.phase = "Succeeded"
            self._store(self.vmi)

    def _open_state(self) -> MigrationState | None:
        return (
            None
            if self.vmi is None or self.vmi.is_final or not is_moving(self.vmi)
            else (self.vmi.status.migration_state)
        )

    def _write(self, **changes: object) -> None:
        assert self.vmi is not None
        state = self.vmi.status.migration_state
        for name, value in changes.items():
            setattr(state, name, value)
        self._store(self.vmi)

    # Users, and time.

    def user_deletes_the_vmi(self) -> None:
        if self.vmi is not None and self.vmi.metadata.deletion_timestamp is None:
            self.vmi.metadata.deletion_timestamp = rfc3339(self.now)
            self._store(self.vmi)

    def time_passes(self) -> None:
        self.now += timedelta(seconds=40)

    # What must always hold.

    def check(self) -> None:
        assert len(self.running) <= 1, f"two guests: {self.running}"
        if self.vmi is None or self.vmi.is_final:
            kept = self.paused & set(self.pods)
            assert not (self.vmi is None and kept), f"the VMI is gone, its guest is not: {kept}"
            assert not self.running, f"the run is over, its guest is not: {self.running}"
        elif (state := self.vmi.status.migration_state) is not None and state.source_pod_gone_timestamp is not None:
            assert SOURCE not in self.launchers, "the source is called off, and lives"
