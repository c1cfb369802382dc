# Tests: kvedge/controller/vmi/hotplug/
"""Any order of adds, removals, losses and stale caches ends in the wanted volumes, and then nothing is done."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvedge.controller.vmi.hotplug.attachment_pod_manifest import attachment_pod_name
from kvedge.controller.vmi.hotplug.hotplug_plan import HotplugView, plan_hotplug
from kvedge.resources.disks.volume_facts import claim_of, hotplugged_volumes
from tests.unit.controller.vmi.hotplug.hotplug_world import HotplugWorld, a_volume

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)


class Hotplug(RuleBasedStateMachine):
    """Users, a controller that may be behind, a kubelet and a handler, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = HotplugWorld.new(*NAMES)
        self.old: HotplugView = self.world.view()

    @initialize(pending=st.sets(names))
    def some_claims_wait_for_their_first_consumer(self, pending: set[str]) -> None:
        for name in pending:
            self.world.claims[name].status.phase = "Pending"

    @rule(chosen=st.sets(names))
    def user_wants(self, chosen: set[str]) -> None:
        self.world.wants(*(a_volume(name) for name in sorted(chosen)))

    @rule()
    def a_cache_stands_still(self) -> None:
        self.old = self.world.view()

    @rule()
    def controller_works(self) -> None:
        self.world.controller_works()

    @rule()
    def controller_works_on_an_old_view(self) -> None:
        self.world.controller_works(self.old)

    @rule()
    def kubelet_works(self) -> None:
        self.world.kubelet_works()

    @rule()
    def handler_works(self) -> None:
        self.world.handler_works()

    @rule(times=st.integers(1, 5))
    def everybody_works(self, times: int) -> None:
        for _ in range(times):
            self.world.controller_works()
            self.world.kubelet_works()
            self.world.handler_works()

    @rule(name=names)
    def a_claim_is_not_there_yet(self, name: str) -> None:
        if name not in self.world.held and not self.world.pods:
            self.world.claims.pop(name, None)

    @rule(name=names)
    def the_guest_keeps_a_disk(self, name: str) -> None:
        self.world.stuck.add(name)

    @rule()
    def a_quota_is_full(self) -> None:
        self.world.has_quota = False

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_pod_is_evicted(self, data: st.DataObject) -> None:
        self.world.pod_is_evicted(data.draw(st.sampled_from(sorted(self.world.pods))))

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_pod_is_lost(self, data: st.DataObject) -> None:
        self.world.pod_is_lost(data.draw(st.sampled_from(sorted(self.world.pods))))

    @invariant()
    def what_the_guest_holds_is_in_the_status(self) -> None:
        self.world.holds_no_volume_without_its_entry()

    def teardown(self) -> None:
        world = self.world
        world.has_quota = True
        world.stuck.clear()
        world.settle()
        wanted = {volume.name for volume in hotplugged_volumes(world.vmi)}
        there = {name for name in wanted if name in world.claims}
        assert set(world.held) == there
        assert {entry.name for entry in world.vmi.status.volume_status if entry.hotplug_volume} == wanted
        assert {entry.name for entry in world.vmi.status.volume_status if entry.phase == "Ready"} == there
        # One that was made for a claim that had just gone waits for the claim, as its volume does.
        assert len(there) <= len(world.pods) <= len(wanted)
        assert {pod.metadata.name for pod in world.pods.values()} <= {
            attachment_pod_name(world.vmi, name, name) for name in wanted
        }
        assert all(claim_of(volume) in world.claims for volume in hotplugged_volumes(world.vmi) if volume.name in there)
        assert plan_hotplug(world.view()) == ()


TestHotplug = Hotplug.TestCase
TestHotplug.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
