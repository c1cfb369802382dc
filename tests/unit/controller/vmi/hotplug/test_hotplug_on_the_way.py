# Tests: kvedge/controller/vmi/hotplug/hotplug_plan.py, kvedge/controller/migrations/target_attachments.py
"""Volumes come and go, guests move or stay, caches are old: no claim ever leaves a launcher that has the guest."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Final

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kvedge.controller.migrations.target_attachments import find_unsettled, look_at_attachments
from kvedge.controller.vmi.hotplug.hotplug_plan import (
    CreateAttachment,
    DeleteAttachment,
    HotplugAction,
    HotplugView,
    plan_hotplug,
)
from kvedge.controller.vmi.launcher_pod_status import has_ended
from kvedge.controller.vmi.launcher_pods import launcher_of, list_over
from kvedge.resources.disks.volume_facts import hotplugged_volumes
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MIGRATION_JOB_UID, MigrationState
from tests.support.builders import NOW, a_claim, ended
from tests.unit.controller.vmi.hotplug.hotplug_world import (
    HotplugWorld,
    Stale,
    a_launcher,
    a_running_vmi,
    a_volume,
)
from tests.unit.controller.world import sent

NAMES: Final = ("a", "b")
names = st.sampled_from(NAMES)


@dataclass
class MovingWorld(HotplugWorld):
    """The small model, with migrations: each has a launcher of its own, and its handlers' words are the test's."""

    launchers: list[Pod] = field(default_factory=list)
    # The one that a guest is to come to, by a migration that is not handed over yet.
    coming: Pod | None = None
    jobs: int = 0
    # By a launcher's UID: the volumes of the guest that is to come there, or that has left.
    kept: dict[str, set[str]] = field(default_factory=dict)

    def view(self) -> HotplugView:
        vmi, launchers = sent(self.vmi), [sent(pod) for pod in self.launchers]
        launcher = launcher_of(vmi, launchers)
        assert launcher is not None
        left = [pod for over in list_over(vmi, launcher, launchers) for pod in self.pods_of(over)]
        claims = {name: sent(claim) for name, claim in self.claims.items()}
        return HotplugView(vmi, launcher, self.pods_of(launcher), claims, left=left)

    def pods_of(self, launcher: Pod) -> list[Pod]:
        return [sent(pod) for pod in self.pods.values() if owner_of(pod) == launcher.metadata.uid]

    def controller_works(self, view: HotplugView | None = None) -> None:
        seen = view or self.view()
        before = self.version
        for action in plan_hotplug(seen):
            if self.version != before:
                # The loop plans anew on what its write has made.
                return
            try:
                self.do(seen, action)
            except Stale:
                return

    def do(self, view: HotplugView, action: HotplugAction) -> None:
        if isinstance(action, DeleteAttachment):
            self.check(action.pod)
        if isinstance(action, CreateAttachment) and action.pod.metadata.name in self.pods:
            return
        super().do(view, action)

    def check(self, pod: Pod) -> None:
        """A Pod that holds a volume for a guest is never asked to end."""
        launcher = next(each for each in self.launchers if each.metadata.uid == owner_of(pod))
        live = self.pods.get(pod.metadata.name)
        if (
            has_ended(launcher)
            or live is None
            or live.metadata.uid != pod.metadata.uid
            or live.status.phase == "Failed"
        ):
            return
        (claim,) = (item.persistent_volume_claim for item in pod.spec.volumes if item.persistent_volume_claim)
        is_guests = launcher.metadata.uid == self.guest_in().metadata.uid
        held = self.kept.get(launcher.metadata.uid, set()) | (set(self.held) if is_guests else set())
        assert claim.claim_name not in held, f"{claim.claim_name} leaves {launcher.metadata.name} under its guest"

    def guest_in(self) -> Pod:
        found = launcher_of(self.vmi, self.launchers)
        assert found is not None
        return found

    @property
    def is_open(self) -> bool:
        state = self.vmi.status.migration_state
        return state is not None and state.is_open

    def begins(self) -> None:
        if find_unsettled(self.vmi):
            return
        self.jobs += 1
        pod = copy.deepcopy(a_launcher(self.vmi))
        pod.metadata.name, pod.metadata.uid = f"target-{self.jobs}", f"target-uid-{self.jobs}"
        pod.metadata.labels[MIGRATION_JOB_UID] = f"job-{self.jobs}"
        pod.spec.node_name = f"node-{self.jobs + 1}"
        self.coming = pod
        self.launchers.append(pod)

    def migration_works(self) -> None:
        """What the migration's plan does until the hand-over, and the hand-over."""
        target = self.coming
        assert target is not None
        found = look_at_attachments(self.vmi, target, self.pods_of(target), self.claims, NOW)
        if found.wait.failure:
            self.coming = None
            end(target)
        elif found.missing:
            for pod in found.missing:
                self.do(self.view(), CreateAttachment("", pod))
        elif not found.waits:
            # The guest has what is handed over, and nothing else.
            assert set(found.uids) == set(self.held)
            assert {pod.metadata.uid for pod in self.pods_of(target)} >= set(found.uids.values())
            source = self.guest_in()
            self.vmi.status.migration_state = MigrationState(
                migration_uid=f"job-{self.jobs}",
                source_node=source.spec.node_name,
                target_node=target.spec.node_name,
                source_pod=source.metadata.name,
                target_pod=target.metadata.name,
                target_attachment_pods=dict(found.uids),
            )
            self.kept = {pod.metadata.uid: set(self.held) for pod in (source, target)}
            self.coming = None
            self._changed()

    def ends(self, *, moved: bool) -> None:
        state = self.vmi.status.migration_state
        assert state is not None
        target = next(pod for pod in self.launchers if pod.metadata.name == state.target_pod)
        moved = moved and not has_ended(target)
        self.vmi.status.migration_state = msgspec.structs.replace(state, completed=True, failed=not moved)
        if moved:
            self.vmi.status.node_name = state.target_node
        # The guest is in one launcher; the other one has its files until it has ended.
        self.kept.pop(self.guest_in().metadata.uid, None)
        self._changed()

    def others_end(self) -> None:
        guest = self.guest_in()
        for pod in self.launchers:
            if pod is not guest and pod is not self.coming:
                end(pod)


def owner_of(pod: Pod) -> str:
    (owner,) = pod.metadata.owner_references
    return owner.uid


def end(launcher: Pod) -> None:
    launcher.status.phase = "Succeeded"
    launcher.status.container_statuses[0].state = ended("Succeeded")


def a_world() -> MovingWorld:
    vmi = a_running_vmi()
    launcher = a_launcher(vmi)
    claims = {name: a_claim(name, access_modes=["ReadWriteMany"]) for name in NAMES}
    return MovingWorld(vmi, launcher, claims, launchers=[launcher])


class OnTheWay(RuleBasedStateMachine):
    """Users, a controller that may be behind, kubelets, handlers, and migrations that end well or not."""

    def __init__(self) -> None:
        super().__init__()
        self.world = a_world()
        self.old = self.world.view()

    @precondition(lambda self: not self.world.is_open)
    @rule(chosen=st.sets(names))
    def user_wants(self, chosen: set[str]) -> None:
        self.world.wants(*(a_volume(name) for name in sorted(chosen)))

    @rule()
    def a_cache_stands_still(self) -> None:
        self.old = self.world.view()

    @rule()
    def controller_works_on_an_old_view(self) -> None:
        self.world.controller_works(self.old)

    @rule(times=st.integers(1, 4))
    def everybody_works(self, times: int) -> None:
        for _ in range(times):
            self.world.controller_works()
            self.world.kubelet_works()
            self.world.handler_works()

    @precondition(lambda self: self.world.coming is None and not self.world.is_open)
    @rule()
    def a_migration_begins(self) -> None:
        self.world.begins()

    @precondition(lambda self: self.world.coming is not None)
    @rule()
    def a_migration_goes_on(self) -> None:
        self.world.migration_works()
        self.world.kubelet_works()

    @precondition(lambda self: self.world.is_open)
    @rule(moved=st.booleans())
    def a_migration_ends(self, moved: bool) -> None:
        self.world.ends(moved=moved)

    @rule()
    def what_has_no_guest_ends(self) -> None:
        self.world.others_end()

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_pod_is_evicted(self, data: st.DataObject) -> None:
        self.world.pod_is_evicted(data.draw(st.sampled_from(sorted(self.world.pods))))

    def teardown(self) -> None:
        world = self.world
        if world.is_open:
            world.ends(moved=True)
        world.coming = None
        world.others_end()
        world.settle()
        wanted = {volume.name for volume in hotplugged_volumes(world.vmi)}
        assert set(world.held) == wanted
        guest = world.guest_in()
        assert {owner_of(pod) for pod in world.pods.values()} <= {guest.metadata.uid}
        told = {entry.name: entry.hotplug_volume for entry in world.vmi.status.volume_status if entry.hotplug_volume}
        held = {pod.metadata.name: pod.metadata.uid for pod in world.pods.values()}
        assert {each.attach_pod_name: each.attach_pod_uid for each in told.values() if each is not None} == held


TestOnTheWay = OnTheWay.TestCase
TestOnTheWay.settings = settings(max_examples=75, stateful_step_count=25, deadline=None)
