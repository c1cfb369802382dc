# Tests: kvedge/controller/vmi/vmi_plan.py, kvedge/controller/vmi/vmi_move_plan.py
"""Whatever becomes of the two Pods of a guest that moves, in any order and seen late: no second run begins, the guest
runs once, and the VMI stays as long as its guest may run.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.migrating import SOURCE, TARGET
from tests.unit.controller.vmi.moving_world import MovingWorld, Sight

STEPS: dict[str, Callable[[MovingWorld], None]] = {
    "guest moves": MovingWorld.guest_moves,
    "source speaks": MovingWorld.source_speaks,
    "source stays": MovingWorld.source_stays,
    "target rules": MovingWorld.target_rules,
    "kubelets": MovingWorld.kubelets_work,
    "forgotten end": MovingWorld.kubelets_end_what_is_forgotten,
    "owner reports": MovingWorld.owner_reports_its_end,
    "source crashes": lambda world: world.end_launcher(SOURCE),
    "target crashes": lambda world: world.end_launcher(TARGET),
    "source forgotten": lambda world: world.is_forgotten(SOURCE),
    "target forgotten": lambda world: world.is_forgotten(TARGET),
    "source's node dies": lambda world: world.node_dies("node-1"),
    "target's node dies": lambda world: world.node_dies("node-2"),
    "vmi deleted": MovingWorld.user_deletes_the_vmi,
    "time": MovingWorld.time_passes,
}
SIGHTS = ["see 0", "see 1", "see-vmi 0", "see-pods 0", "work 0", "work 1", "pass", "pass"]


def happen(world: MovingWorld, sights: list[Sight], name: str) -> None:
    verb, _, which = name.partition(" ")
    if name in STEPS:
        STEPS[name](world)
    elif verb == "see":
        sights[int(which)] = world.see()
    elif verb == "see-vmi":
        sights[int(which)].vmi = world.see().vmi
    elif verb == "see-pods":
        sights[int(which)].pods = world.see().pods
    elif verb == "work":
        world.work(sights[int(which)])
    else:
        world.work(world.see())
    world.check()


@settings(max_examples=600)
@given(st.lists(st.sampled_from([*STEPS, *SIGHTS]), max_size=40))
def test_two_pods_never_make_two_runs_and_the_vmi_outlives_its_guest(steps: list[str]) -> None:
    world = MovingWorld()
    sights = [world.see(), world.see()]
    for name in steps:
        happen(world, sights, name)


ORDERLY = [
    "guest moves",
    "source speaks",
    "target rules",
    "kubelets",
    "forgotten end",
    "pass",
    "pass",
    "time",
    "owner reports",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*STEPS, *SIGHTS]), max_size=25))
def test_a_vmi_that_is_deleted_in_the_end_goes_with_its_guest(steps: list[str]) -> None:
    world = MovingWorld()
    sights = [world.see(), world.see()]
    for name in [*steps, "vmi deleted", *15 * ORDERLY]:
        happen(world, sights, name)
    assert world.vmi is None
    happen(world, sights, "kubelets")
    assert (world.running, world.pods) == (set(), {})


def test_a_guest_that_moves_is_the_same_run_on_the_other_node() -> None:
    world = MovingWorld()
    for name in 4 * ORDERLY:
        happen(world, [world.see(), world.see()], name)
    assert world.vmi is not None
    assert (world.vmi.status.phase, world.vmi.status.node_name) == ("Running", "node-2")
    assert world.running == {TARGET}
    assert list(world.vmi.status.active_pods.values()) == ["node-2"]
