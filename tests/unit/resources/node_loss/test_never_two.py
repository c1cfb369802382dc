# Tests: kvedge/resources/node_loss/fence_terms.py, kvedge/handler/fencing/fence_plan.py
# Tests: kvedge/controller/fencing/fence_rules.py
"""Schedules of a node that loses its API, against the arithmetic: a second guest never starts beside the first.

One guest, its node with a handler and a watchdog, a server with one lease, two controllers. Clocks run at different
rates, messages are late or lost, the handler is stopped and goes on, is killed and comes back, the machine is reset or
loses its power and comes back, a guest cannot be killed, controllers start anew. KVEDGE_FENCE_SCHEDULES has more tried.
"""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from kvedge.controller.fencing.fence_rules import judge_silence
from kvedge.handler.fencing.fence_plan import Order, Promise, plan_look, refuse_start
from kvedge.resources.node_loss.fence_terms import CLOCK_ERROR, FenceTerms
from kvedge.resources.node_loss.node_lease import NodeFence, declare_gone
from tests.support.values import replace

SCHEDULES: Final = int(os.environ.get("KVEDGE_FENCE_SCHEDULES", "4000"))
TERMS: Final = FenceTerms(silence=9, watchdog=4, renew=3, check=1, margin=2)
# A long silence beside a short watchdog.
LONG: Final = FenceTerms(silence=20, watchdog=2, renew=3, check=1, margin=2)
END: Final = 70.0
# What a kill and a reset take at most: the margin has room for both, and for the clocks.
KILL_SECONDS: Final = 0.3
RESET_SECONDS: Final = 1.0
UID: Final = "a-vmi"
CALL_SECONDS: Final = 2.0


class Weak(FenceTerms):
    """Terms whose server does not wait for what may delay a watchdog."""

    @property
    def gone_after(self) -> int:
        return self.silence + self.watchdog + self.margin


@dataclass
class World:
    """One schedule; time is that of nobody's clock."""

    rng: random.Random
    terms: FenceTerms = TERMS
    # The rule that is broken on purpose, to see that the model notices.
    counts_from_answer: bool = False
    writes_blindly: bool = False
    opens_without_look: bool = False
    kills: int = 3
    now: float = 0.0
    queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    number: int = 0
    # The server.
    version: int = 1
    lease: NodeFence = field(default_factory=NodeFence)
    cut: tuple[float, float] = (0.0, 0.0)
    # The node.
    guest: bool = True
    stuck: bool = False
    powered: bool = True
    life: int = 0
    frozen_until: float = 0.0
    promise: Promise = field(default_factory=Promise)
    known: int | None = 1
    fed: float = 0.0
    is_open: bool = True
    # What came of it.
    declared: bool = False
    two: bool = False

    def __post_init__(self) -> None:
        self.node_rate, self.timer_rate = pick_rate(self.rng), pick_rate(self.rng)
        self.promise = Promise("one", 0.0, self.terms, {UID: ""})
        self.lease = NodeFence("n", "one", "timer", self.terms, frozenset({UID}))

    def at(self, delay: float, act: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (self.now + delay, self.number, act))

    def run(self) -> None:
        self.begin_life()
        self.watch_timer()
        for _ in range(2):
            Controller(self).look()
        self.plan_troubles()
        while self.queue and not self.declared:
            self.now, _, act = heapq.heappop(self.queue)
            if self.now > END:
                return
            act()

    # What goes wrong.

    def plan_troubles(self) -> None:
        rng = self.rng
        begin = rng.uniform(2.0, 15.0)
        self.cut = (begin, begin + rng.choice((3.0, 8.0, 20.0, 200.0)))
        self.stuck = rng.random() < 0.2
        for _ in range(rng.randrange(4)):
            self.at(rng.uniform(0.0, 45.0), self.freeze)
        for _ in range(rng.randrange(self.kills)):
            self.at(rng.uniform(0.0, 45.0), self.kill_handler)
        if rng.random() < 0.15:
            self.at(rng.uniform(0.0, 40.0), self.lose_power)

    def freeze(self) -> None:
        self.frozen_until = self.now + self.rng.choice((0.5, 2.0, 3.9, 6.0, 30.0))

    def kill_handler(self) -> None:
        if not self.powered:
            return
        self.life += 1
        self.frozen_until = 0.0
        if self.is_open:
            # The kernel feeds once as it closes the device.
            self.fed, self.is_open = self.now, False
        self.at(self.rng.choice((0.2, 1.0, 3.5, 10.0)), self.begin_life)

    def lose_power(self) -> None:
        self.powered, self.guest = False, False
        self.life += 1
        self.at(self.rng.uniform(1.0, 30.0), self.boot)

    def boot(self) -> None:
        self.powered, self.fed, self.is_open, self.frozen_until = True, self.now, False, 0.0
        self.promise, self.known = Promise("two"), None
        self.at(0.0, self.begin_life)

    # The node's handler.

    def clock(self) -> float:
        return self.now * self.node_rate

    def mine(self, act: Callable[[], None]) -> Callable[[], None]:
        """What one handler does: later while it is stopped, and never once it was killed."""
        life = self.life

        def do() -> None:
            if life != self.life or not self.powered:
                return
            if self.now < self.frozen_until:
                self.at(self.frozen_until - self.now, do)
                return
            act()

        return do

    def begin_life(self) -> None:
        if not self.powered:
            return
        self.known = None if self.now else 1
        if self.opens_without_look:
            self.fed, self.is_open = self.now, True
        self.at(0.0, self.mine(self.look))
        self.at(0.1, self.mine(self.renew))

    def look(self) -> None:
        order = plan_look(self.promise, self.clock())
        # It may be stopped between the look and what it does.
        self.at(self.rng.choice((0.0, 0.001)), self.mine(lambda: self.follow(order)))

    def follow(self, order: Order) -> None:
        if order is Order.KILL:
            if not self.stuck:
                self.at(self.rng.uniform(0.0, KILL_SECONDS), self.end_guest)
            if not self.guest:
                self.fed, self.is_open = self.now, True
        elif order is Order.FEED:
            self.fed, self.is_open = self.now, True
        self.at(self.terms.check / self.node_rate, self.mine(self.look))

    def end_guest(self) -> None:
        self.guest = False

    def renew(self) -> None:
        self.at(self.terms.renew / self.node_rate, self.mine(self.renew))
        sent, known, there = self.clock(), self.known, self.delay()
        if there is None:
            self.known = None
            return
        if self.promise.gone and self.guest:
            return
        self.at(there, lambda: self.serve(sent, known))

    def serve(self, sent: float, known: int | None) -> None:
        """The server: a read where the version is not known, else a write of that version."""
        back, answered = self.delay(), self.mine
        if known is None:
            version, lease = self.version, self.lease
            if back is not None:
                self.at(back, answered(lambda: self.learn(version, lease)))
            return
        if known != self.version:
            if back is not None:
                self.at(back, answered(self.forget))
            return
        self.version += 1
        version = self.version
        if back is None:
            self.at(CALL_SECONDS, answered(self.forget))
        else:
            self.at(back, answered(lambda: self.note_renewal(sent, version)))

    def note_renewal(self, sent: float, version: int) -> None:
        self.known = version
        moment = self.clock() if self.counts_from_answer else sent
        self.promise = replace(self.promise, t_ok=max(self.promise.t_ok, moment))

    def learn(self, version: int, lease: NodeFence) -> None:
        self.known = version
        self.promise = replace(self.promise, gone=lease.gone)

    def forget(self) -> None:
        self.known = None

    def delay(self) -> float | None:
        """What a message takes; None for one that is lost."""
        if self.cut[0] <= self.now < self.cut[1]:
            return None
        return self.rng.choice((0.01, 0.01, 0.05, 1.5, 12.0)) if self.rng.random() > 0.05 else None

    def watch_timer(self) -> None:
        due = self.fed + self.terms.watchdog / self.timer_rate
        if self.now >= due and self.powered:
            self.powered = False
            self.life += 1
            self.at(self.rng.uniform(0.0, RESET_SECONDS), self.end_guest)
            self.at(RESET_SECONDS + self.rng.uniform(1.0, 30.0), self.boot)
        self.at(max(0.05, due - self.now), self.watch_timer)


def pick_rate(rng: random.Random) -> float:
    """How fast a clock runs; as wrong as it may be in half of the schedules."""
    return rng.choice((1 - CLOCK_ERROR, 1 + CLOCK_ERROR, *(rng.uniform(1 - CLOCK_ERROR, 1 + CLOCK_ERROR),) * 2))


class Controller:
    """One of two, each with its own clock and its own view of the lease."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rate = pick_rate(world.rng)
        # For so long its watch hears nothing.
        begin = world.rng.uniform(0.0, 10.0)
        self.deaf = (begin, begin + world.rng.choice((0.0, 0.0, 40.0)))
        self.seen: int | None = None
        self.since = 0.0
        self.lease = world.lease

    def look(self) -> None:
        world = self.world
        if world.rng.random() < 0.01:
            # It starts anew.
            self.seen = None
        hears = not self.deaf[0] <= world.now < self.deaf[1] and world.rng.random() < 0.7
        if hears and self.seen != world.version:
            self.seen, self.lease, self.since = world.version, world.lease, world.now
        if self.seen is not None:
            silent = (world.now - self.since) * self.rate
            if judge_silence(self.lease, silent).declare:
                version, lease = self.seen, self.lease
                world.at(world.rng.choice((0.0, 1.0, 6.0)), lambda: self.declare(version, lease))
        world.at(0.8, self.look)

    def declare(self, version: int, lease: NodeFence) -> None:
        world = self.world
        if version != world.version and not world.writes_blindly:
            return
        world.version += 1
        world.lease = declare_gone(lease)
        world.declared, world.two = True, world.guest


def play(count: int, first: int = 0, **changes: object) -> tuple[int, int]:
    """How many of so many schedules had the node fenced, and how many of those two guests."""
    declared = two = 0
    for seed in range(first, first + count):
        world = World(random.Random(seed), **changes)  # type: ignore[arg-type]
        world.run()
        declared += world.declared
        two += world.two
    return declared, two


def test_no_schedule_has_two_guests_and_many_have_the_second() -> None:
    declared, two = play(SCHEDULES)
    assert two == 0
    assert declared > SCHEDULES / 10


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"counts_from_answer": True, "terms": LONG}, id="the node counts from the answer"),
        pytest.param({"writes_blindly": True}, id="the controller does not name the version that it saw"),
        pytest.param(
            {"opens_without_look": True, "kills": 20}, id="a handler that starts opens the watchdog before it looks"
        ),
        pytest.param({"terms": Weak(9, 4, 3, 1, 2)}, id="the server waits for the watchdog once only"),
    ],
)
def test_the_model_finds_a_rule_that_is_broken(broken: dict[str, object]) -> None:
    assert any(play(1, first, **broken)[1] for first in range(20 * SCHEDULES))


def test_what_a_sleeping_machine_runs_after_it_wakes_is_one_look_at_most() -> None:
    promise = Promise("one", 100.0, TERMS, {UID: ""})
    # It fell asleep just after a look, and slept for an hour, which CLOCK_BOOTTIME has counted.
    woken = 100.0 + 3600.0
    assert plan_look(promise, 100.0) is Order.FEED
    assert plan_look(promise, woken + TERMS.check) is Order.KILL
    # Nothing new begins even before that look.
    assert refuse_start(promise, UID, woken)
