# Tests: kvedge/handler/fencing/lease_door.py, kvedge/handler/fencing/promise_record.py
"""A node keeps its promise: it renews, feeds and ends guests in the order that the proof needs."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kvedge.handler.fencing import promise_record
from kvedge.handler.fencing.fence_keeper import FenceKeeper, FenceTools
from kvedge.handler.fencing.fence_plan import Promise
from kvedge.handler.fencing.lease_door import LeaseDoor
from kvedge.handler.fencing.node_guests import Wish
from kvedge.handler.fencing.promise_record import PromiseRecord
from kvedge.handler.fencing.watchdog_device import Watchdog, WatchdogError
from kvedge.kube.errors import Conflict, Forbidden, Unavailable
from kvedge.kube.patches import at_version
from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.resources.node_loss.node_lease import NodeFence, declare_gone, fence_patch, lease_name, new_lease
from kvedge.resources.types.core import ConfigMap
from tests.support.clocks import FakeClock
from tests.support.played_leases import PlayedLeases, PlayedWatchdog

TERMS = FenceTerms()
ASKED = Wish(TERMS, {"a": "pod-a"}, frozenset({"a", "waits"}))


@dataclass
class World:
    """One node."""

    directory: Path
    server: PlayedLeases = field(default_factory=PlayedLeases)
    wish: Wish | None = ASKED
    now: float = 1000.0
    running: set[str] = field(default_factory=lambda: {"a", "waits"})
    # Guests that SIGKILL does not end.
    stuck: set[str] = field(default_factory=set)
    watchdogs: list[PlayedWatchdog] = field(default_factory=list)
    no_watchdog: bool = False
    told: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keeper = self.start_handler()

    def start_handler(self, boot: str = "boot") -> FenceKeeper:
        tools = FenceTools(
            door=LeaseDoor(self.server, "n", FakeClock()),  # type: ignore[arg-type]
            record=self.record,
            wishes=self,
            arm=self.arm,
            kill=self.kill,
            runs=lambda uid, pod: uid in self.running,
            boottime=lambda: self.now,
            tell=lambda reason, text: self.told.append((reason, text)),
        )
        self.keeper = FenceKeeper(tools, "n", boot)
        self.keeper.load()
        return self.keeper

    @property
    def record(self) -> PromiseRecord:
        return PromiseRecord(self.directory / "fence.json")

    def read(self) -> Wish | None:
        return self.wish

    def arm(self, seconds: int) -> Watchdog:
        if self.no_watchdog:
            raise WatchdogError("this node has no /dev/watchdog0")
        self.watchdogs.append(PlayedWatchdog(seconds))
        return self.watchdogs[-1]

    def kill(self, guests: Mapping[str, str]) -> int:
        left = len(self.running & guests.keys())
        self.running -= guests.keys() - self.stuck
        return left

    def fed(self) -> int:
        return sum(each.fed for each in self.watchdogs)

    def declare(self) -> None:
        """A controller's write."""
        name = lease_name("n")
        body = fence_patch(declare_gone(self.server.fence("n")))
        self.server.patch(ConfigMap, "", name, at_version(body, self.server.items[name].metadata.resource_version))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def lose_api(world: World) -> None:
    world.server.failure = Unavailable(0, "", "no route")


def test_a_node_that_is_not_to_fence_itself_writes_nothing_and_arms_nothing(world: World) -> None:
    world.wish = Wish()
    world.keeper.renew()
    world.keeper.look()
    assert (world.server.writes, world.watchdogs) == (0, [])


def test_a_node_that_is_not_to_fence_itself_asks_for_nothing(world: World) -> None:
    world.wish = Wish()
    world.server.failure = Forbidden(0, "", "not allowed")
    world.keeper.renew()
    assert world.told == []
    world.wish = ASKED
    world.keeper.renew()
    assert world.told[-1][0] == "FencingRefused"


def test_a_promise_is_made_with_an_armed_watchdog_and_only_for_those_that_ask(world: World) -> None:
    world.keeper.renew()
    fence = world.server.fence("n")
    assert fence.promised == {"a"}
    assert (fence.watchdog, fence.terms, fence.boot_id) == ("played, 20 s", TERMS, "boot")
    world.keeper.look()
    assert world.watchdogs[0].fed == 2


def test_without_a_watchdog_nothing_is_promised_and_somebody_is_told(world: World) -> None:
    world.no_watchdog = True
    world.keeper.renew()
    assert world.server.writes == 0
    assert world.told == [("NoWatchdog", world.told[0][1])]
    assert "this node has no /dev/watchdog0" in world.told[0][1]


def test_a_node_without_its_api_kills_what_it_promised_and_nothing_else(world: World) -> None:
    world.keeper.renew()
    lose_api(world)
    world.now += TERMS.silence
    world.keeper.renew()
    world.keeper.look()
    assert world.running == {"a", "waits"}
    world.now += 1
    fed = world.fed()
    world.keeper.look()
    assert world.running == {"waits"}
    assert world.fed() == fed
    # Once it is seen that none is left, the machine may live.
    world.keeper.look()
    assert world.fed() == fed + 1
    assert world.keeper.refuse_start("a")
    assert not world.keeper.refuse_start("waits")


def test_a_guest_that_cannot_be_killed_is_left_to_the_watchdog(world: World) -> None:
    world.stuck = {"a"}
    world.keeper.renew()
    lose_api(world)
    world.now += TERMS.silence + 1
    fed = world.fed()
    for _ in range(5):
        world.keeper.look()
    assert world.fed() == fed


def test_a_renewal_counts_from_when_it_was_sent_and_only_with_an_answer(world: World) -> None:
    world.keeper.renew()
    world.server.loses_answers = True
    world.now += TERMS.silence
    world.keeper.renew()
    world.now += 1
    world.keeper.look()
    assert world.running == {"waits"}


def test_a_handler_that_starts_anew_looks_before_it_opens_the_watchdog(world: World) -> None:
    world.keeper.renew()
    lose_api(world)
    world.now += TERMS.silence + 1
    world.stuck = {"a"}
    keeper = world.start_handler()
    keeper.look()
    assert len(world.watchdogs) == 1
    world.stuck = set()
    keeper.look()
    keeper.look()
    assert (len(world.watchdogs), world.running) == (2, {"waits"})


def test_a_handler_that_starts_anew_in_time_keeps_the_promise(world: World) -> None:
    world.keeper.renew()
    world.now += 10
    keeper = world.start_handler()
    keeper.look()
    assert len(world.watchdogs) == 2
    keeper.renew()
    assert world.server.fence("n").promised == {"a"}
    assert world.running == {"a", "waits"}


def test_a_node_that_was_fenced_takes_no_part_before_its_guests_are_gone(world: World) -> None:
    world.keeper.renew()
    world.declare()
    world.stuck = {"a"}
    world.keeper.renew()
    world.keeper.renew()
    world.keeper.look()
    writes = world.server.writes
    world.keeper.renew()
    assert world.server.writes == writes
    assert world.keeper.refuse_start("a") == "this node has been fenced, and the VM may run elsewhere"
    world.stuck = set()
    world.keeper.look()
    world.keeper.look()
    world.keeper.renew()
    assert world.running == {"waits"}
    assert world.server.fence("n").promised == frozenset()
    # The API has it here: it is not to be started before that has ended.
    assert world.server.fence("n").gone == {"a"}
    world.wish = Wish(TERMS, {}, frozenset({"waits"}))
    world.keeper.renew()
    assert world.server.fence("n").gone == frozenset()
    assert not world.keeper.refuse_start("a")


def test_what_an_earlier_boot_promised_is_told_to_be_gone(world: World) -> None:
    world.keeper.renew()
    world.running = set()
    keeper = world.start_handler(boot="next")
    keeper.look()
    keeper.renew()
    fence = world.server.fence("n")
    assert (fence.boot_id, fence.promised, fence.gone) == ("next", frozenset(), {"a"})


def test_a_promise_that_is_taken_back_stops_the_watchdog_after_the_server_has_heard_of_it(world: World) -> None:
    world.keeper.renew()
    world.wish = Wish(TERMS, {}, frozenset({"a"}))
    world.server.refusal = Unavailable(0, "", "no route")
    world.keeper.renew()
    assert world.watchdogs[0].is_running
    assert world.record.load("boot").guests == {"a": "pod-a"}
    world.server.refusal = None
    world.keeper.renew()
    assert not world.watchdogs[0].is_running
    assert world.server.fence("n").promised == frozenset()
    assert world.record.load("boot").guests == {}


def test_a_handler_that_ends_in_order_takes_its_promise_back_and_leaves_guests_alone(world: World) -> None:
    world.keeper.renew()
    world.keeper.leave()
    assert not world.watchdogs[0].is_running
    assert world.server.fence("n") == NodeFence("n", "boot")
    assert world.running == {"a", "waits"}


def test_a_handler_of_a_fenced_node_does_not_end_in_order_before_its_guests_have(world: World) -> None:
    world.keeper.renew()
    world.declare()
    world.keeper.renew()
    world.keeper.leave()
    assert world.watchdogs[0].is_running
    assert world.record.load("boot").guests == {"a": "pod-a"}
    # The next handler learns of it, and ends them.
    keeper = world.start_handler()
    keeper.renew()
    keeper.look()
    assert world.running == {"waits"}


def test_a_look_that_comes_after_the_end_arms_nothing(world: World) -> None:
    world.keeper.renew()
    lose_api(world)
    world.keeper.leave()
    world.keeper.look()
    assert len(world.watchdogs) == 1


def test_what_an_earlier_loss_has_ended_says_nothing_of_the_next_one(world: World) -> None:
    world.keeper.renew()
    lose_api(world)
    world.now += TERMS.silence + 1
    world.keeper.look()
    world.keeper.look()
    world.server.failure = None
    world.keeper.renew()
    world.keeper.renew()
    # It comes to this node again, by a migration.
    world.running.add("a")
    world.keeper.look()
    world.declare()
    world.keeper.renew()
    world.keeper.renew()
    assert world.server.fence("n").gone == {"a"}
    assert world.record.load("boot").guests == {"a": "pod-a"}
    world.keeper.look()
    assert world.running == {"waits"}


def test_a_handler_that_ends_tells_which_guests_are_gone_already(world: World) -> None:
    world.keeper.renew()
    world.running = {"waits"}
    world.keeper.leave()
    assert world.server.fence("n").gone == {"a"}


def test_a_handler_that_ends_without_its_api_leaves_the_watchdog_running(world: World) -> None:
    world.keeper.renew()
    lose_api(world)
    world.keeper.leave()
    assert world.watchdogs[0].is_running
    assert not world.watchdogs[0].is_open


def test_a_server_that_refuses_the_lease_gets_no_promise(world: World) -> None:
    world.server.refusal = Forbidden(0, "", "not allowed")
    world.keeper.renew()
    world.now += TERMS.silence + 1
    world.keeper.look()
    assert world.running == {"a", "waits"}
    assert not world.watchdogs[0].is_running
    assert world.told[-1][0] == "FencingRefused"


def test_a_lease_that_somebody_deletes_takes_the_promise_with_it(world: World) -> None:
    world.keeper.renew()
    world.server.items.clear()
    world.keeper.renew()
    assert not world.watchdogs[0].is_running
    world.now += TERMS.silence + 1
    world.keeper.look()
    assert world.running == {"a", "waits"}
    # The next renewal makes it anew.
    world.keeper.renew()
    assert world.server.fence("n").promised == {"a"}


def test_terms_that_change_hold_once_nothing_is_promised(world: World) -> None:
    world.keeper.renew()
    world.wish = Wish(FenceTerms(silence=90), {"a": "pod-a"}, frozenset({"a"}))
    world.keeper.renew()
    assert world.server.fence("n").terms == TERMS
    world.wish = Wish(TERMS, {}, frozenset())
    world.keeper.renew()
    world.wish = Wish(FenceTerms(silence=90), {"b": "pod-b"}, frozenset({"b"}))
    world.keeper.renew()
    assert world.server.fence("n").terms == FenceTerms(silence=90)


def test_a_record_that_is_lost_is_found_again_in_the_lease(world: World) -> None:
    world.keeper.renew()
    (world.directory / "fence.json").unlink()
    keeper = world.start_handler()
    keeper.renew()
    world.now += TERMS.silence + 1
    lose_api(world)
    keeper.look()
    assert world.running == {"waits"}


def test_a_record_that_is_damaged_feeds_nothing_before_the_lease_was_renewed(world: World) -> None:
    world.keeper.renew()
    (world.directory / "fence.json").write_text("{")
    keeper = world.start_handler()
    keeper.look()
    assert len(world.watchdogs) == 1
    keeper.renew()
    keeper.look()
    assert len(world.watchdogs) == 2


def test_a_write_of_somebody_else_is_read_before_the_next_one(world: World) -> None:
    world.keeper.renew()
    world.server.touch(lease_name("n"))
    world.keeper.renew()
    world.keeper.renew()
    assert world.server.fence("n").promised == {"a"}


def test_the_server_of_these_tests_refuses_an_old_version(world: World) -> None:
    world.server.create(new_lease(NodeFence("n")))
    with pytest.raises(Conflict):
        world.server.patch(ConfigMap, "", lease_name("n"), at_version({}, "0"))


def test_a_record_of_another_boot_says_nothing(world: World) -> None:
    world.record.save(Promise("one", 5.0, TERMS, {"a": ""}, frozenset({"b"})))
    assert world.record.load("one") == Promise("one", 5.0, TERMS, {"a": ""}, frozenset({"b"}))
    assert world.record.load("two") == Promise("two")


def test_a_full_disk_ends_no_guest_and_promises_no_new_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.keeper.renew()
    monkeypatch.setattr(promise_record, "write_whole", refuse_to_write)
    for _ in range(10):
        world.now += 30.0
        world.keeper.renew()
        world.keeper.look()
    assert "a" in world.running
    assert world.watchdogs[0].is_running
    world.wish = Wish(TERMS, {"a": "pod-a", "b": "pod-b"}, frozenset({"a", "b"}))
    world.keeper.renew()
    assert world.server.fence("n").promised == {"a"}
    # A handler that starts anew knows no better than what is written down, and ends its guest rather too early.
    world.start_handler().look()
    assert "a" not in world.running


def refuse_to_write(_path: object, _content: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
