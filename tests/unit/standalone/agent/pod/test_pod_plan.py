from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.resources.types.core import Pod, PodStatus
from kvedge.standalone.agent.container.container_state import (
    ContainerState,
    Ended,
    ExitRecord,
    NotStarted,
    Running,
    Starting,
)
from kvedge.standalone.agent.pod.pod_plan import (
    AskForImages,
    AskToEnd,
    EndUnhealthy,
    ForgetPod,
    ImageProblem,
    Kill,
    LimitCpu,
    LookAgain,
    MakePlace,
    PodSeen,
    ReleasePlace,
    StartContainer,
    Step,
    is_over,
    plan_pod,
)
from tests.support.builders import plain_pod as pod
from tests.support.values import replace
from tests.unit.standalone.agent.pods import RUNNING, ended

_NOW = 10_000.0
_THERE: dict[str, ImageProblem | None] = {"busybox": None}


def test_a_new_pod_asks_for_its_images_before_anything_is_made() -> None:
    assert plan_pod(pod(), PodSeen({"c": NotStarted()}), _NOW, None) == (AskForImages(("busybox",)),)


def test_with_its_images_it_gets_its_place_and_starts() -> None:
    seen = PodSeen({"c": NotStarted()}, images=_THERE)

    assert plan_pod(pod(), seen, _NOW, None) == (MakePlace(), StartContainer("c"))


def test_with_its_place_only_what_never_ran_is_started() -> None:
    seen = PodSeen({"a": RUNNING, "b": NotStarted(), "c": ended(0)}, images=_THERE, placed=True, has_place=True)

    assert plan_pod(pod("a", "b", "c"), seen, _NOW, None) == (StartContainer("b"),)


def test_a_start_of_an_earlier_agent_is_waited_for_and_not_repeated() -> None:
    seen = PodSeen({"c": Starting()}, images=_THERE, has_place=True)

    assert plan_pod(pod(), seen, _NOW, None) == (LookAgain(0.2),)


def test_a_running_pod_needs_nothing_not_even_its_images() -> None:
    assert plan_pod(pod(), PodSeen({"c": RUNNING}, has_place=True), _NOW, None) == ()


def test_a_pod_s_cpu_time_is_limited_once_a_container_runs_and_not_before() -> None:
    starting = PodSeen({"a": Starting()}, images=_THERE, placed=True, unlimited=True, has_place=True)

    assert plan_pod(pod("a"), starting, _NOW, None) == (LookAgain(0.2),)
    running = replace(starting, containers={"a": RUNNING})
    assert plan_pod(pod("a"), running, _NOW, None) == (LimitCpu(),)
    more = replace(starting, containers={"a": RUNNING, "b": NotStarted()})
    assert plan_pod(pod("a", "b"), more, _NOW, None) == (LimitCpu(), StartContainer("b"))
    assert plan_pod(pod("a"), replace(running, unlimited=False), _NOW, None) == ()


def test_a_container_that_is_not_alive_is_asked_to_end_and_killed_after_its_time() -> None:
    made = pod(termination_grace_period_seconds=60)
    seen = PodSeen({"c": RUNNING}, has_place=True, unhealthy={"c": None})

    assert plan_pod(made, seen, _NOW, None) == (EndUnhealthy("c"),)
    asked = replace(seen, unhealthy_since={"c": _NOW})
    assert plan_pod(made, asked, _NOW + 20, None) == (LookAgain(40.0),)
    assert plan_pod(made, asked, _NOW + 60, None) == (Kill(("c",)), LookAgain(0.2))


def test_a_probe_may_give_a_container_less_time_than_the_pod_has() -> None:
    made = pod(termination_grace_period_seconds=60)
    seen = PodSeen({"c": RUNNING}, has_place=True, unhealthy={"c": 5.0}, unhealthy_since={"c": _NOW})

    assert plan_pod(made, seen, _NOW + 1, None) == (LookAgain(4.0),)
    assert plan_pod(made, seen, _NOW + 5, None) == (Kill(("c",)), LookAgain(0.2))


def test_only_the_container_that_is_not_alive_ends() -> None:
    seen = PodSeen({"a": RUNNING, "b": RUNNING}, has_place=True, unhealthy={"b": None})

    assert plan_pod(pod("a", "b"), seen, _NOW, None) == (EndUnhealthy("b"),)


def test_a_container_that_has_ended_since_is_not_ended_again() -> None:
    seen = PodSeen({"a": RUNNING, "b": ended(137)}, has_place=True, unhealthy={"b": None})

    assert plan_pod(pod("a", "b"), seen, _NOW, None) == ()


def test_a_pod_that_is_being_deleted_ends_as_such() -> None:
    seen = PodSeen({"c": RUNNING}, has_place=True, unhealthy={"c": 0.0})

    assert plan_pod(pod(), seen, _NOW, _NOW + 30) == (AskToEnd(("c",)), LookAgain(30.0))


def test_a_pod_that_was_deleted_by_force_has_two_seconds_and_one_that_was_forgotten_all_its_time() -> None:
    made = pod(termination_grace_period_seconds=60)
    forced = PodSeen({"c": RUNNING}, has_place=True, gone_since=_NOW, stop_asked_at=_NOW)

    assert plan_pod(made, forced, _NOW + 2, None) == (Kill(("c",)), LookAgain(0.2))
    forgotten = replace(forced, forgotten=True)
    assert plan_pod(made, forgotten, _NOW + 2, None) == (LookAgain(58.0),)
    assert plan_pod(made, forgotten, _NOW + 60, None) == (Kill(("c",)), LookAgain(0.2))


def test_nothing_starts_while_another_pod_of_the_vm_is_in_the_way() -> None:
    seen = PodSeen({"c": NotStarted()}, images=_THERE, predecessor="ns/before")

    assert plan_pod(pod(), seen, _NOW, None) == (LookAgain(0.2),)


def test_init_containers_start_one_by_one() -> None:
    wanted = pod("c", init=("one", "two"))
    states: dict[str, ContainerState] = {"one": NotStarted(), "two": NotStarted(), "c": NotStarted()}
    seen = PodSeen(states, images=_THERE, placed=True, has_place=True)

    assert plan_pod(wanted, seen, _NOW, None) == (StartContainer("one"),)
    states["one"] = RUNNING
    assert plan_pod(wanted, seen, _NOW, None) == ()
    states["one"] = ended(0)
    assert plan_pod(wanted, seen, _NOW, None) == (StartContainer("two"),)
    states["two"] = ended(0)
    assert plan_pod(wanted, seen, _NOW, None) == (StartContainer("c"),)


def test_a_failed_init_container_ends_the_pod() -> None:
    seen = PodSeen({"one": ended(1), "c": NotStarted()}, images=_THERE, has_place=True)

    assert plan_pod(pod("c", init=("one",)), seen, _NOW, None) == (ReleasePlace(),)


def test_a_pod_that_has_ended_gives_back_its_place_but_keeps_its_volumes() -> None:
    seen = PodSeen({"c": ended(0)}, has_place=True)

    assert plan_pod(pod(), seen, _NOW, None) == (ReleasePlace(),)
    assert plan_pod(pod(), replace(seen, has_place=False), _NOW, None) == ()


def test_a_pod_that_the_api_calls_failed_is_never_started() -> None:
    failed = pod(status=PodStatus(phase="Failed"))

    assert plan_pod(failed, PodSeen({"c": NotStarted()}), _NOW, None) == ()


def test_a_deleted_pod_is_asked_to_end_and_killed_at_its_deadline() -> None:
    seen = PodSeen({"c": RUNNING}, has_place=True)

    assert plan_pod(pod(), seen, _NOW, _NOW + 30) == (AskToEnd(("c",)), LookAgain(30.0))
    asked = replace(seen, stop_asked_at=_NOW)
    assert plan_pod(pod(), asked, _NOW + 10, _NOW + 30) == (LookAgain(20.0),)
    assert plan_pod(pod(), asked, _NOW + 30, _NOW + 30) == (Kill(("c",)), LookAgain(0.2))


def test_a_deleted_pod_without_a_living_container_is_forgotten() -> None:
    seen = PodSeen({"a": ended(0), "b": NotStarted()}, has_place=True)

    assert plan_pod(pod("a", "b"), seen, _NOW, _NOW + 30) == (ReleasePlace(), ForgetPod())


def test_a_deleted_pod_in_the_middle_of_a_start_is_waited_for() -> None:
    assert plan_pod(pod(), PodSeen({"c": Starting()}), _NOW, _NOW + 30) == (LookAgain(0.2),)


def test_a_pod_whose_object_is_gone_gets_two_seconds_whatever_its_grace_period() -> None:
    wanted = pod(termination_grace_period_seconds=600)
    seen = PodSeen({"c": RUNNING}, has_place=True, gone_since=_NOW, stop_asked_at=_NOW)

    assert plan_pod(wanted, seen, _NOW + 1, None) == (LookAgain(1.0),)
    assert plan_pod(wanted, seen, _NOW + 2, None) == (Kill(("c",)), LookAgain(0.2))
    assert plan_pod(wanted, replace(seen, containers={"c": ended(137)}), _NOW + 2, None) == (
        ReleasePlace(),
        ForgetPod(),
    )


def test_what_is_not_supported_is_over_before_it_begins() -> None:
    always = pod()
    always.spec.restart_policy = "Always"

    assert is_over(always, PodSeen({"c": NotStarted()}))
    assert plan_pod(always, PodSeen({"c": NotStarted()}), _NOW, None) == ()


class _World:
    """A node that does what it is told, for one Pod; starts are counted."""

    def __init__(self, seen: PodSeen) -> None:
        self.seen = seen
        self.now = _NOW
        self.starts: dict[str, int] = {}
        self.forgotten = False

    def do(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._do(step)

    def _do(self, step: Step) -> None:
        containers = dict(self.seen.containers)
        match step:
            case AskForImages(references):
                self.seen = replace(self.seen, images={**self.seen.images, **dict.fromkeys(references)})
            case MakePlace():
                self.seen = replace(self.seen, placed=True, has_place=True)
            case StartContainer(name):
                assert self.seen.placed
                assert isinstance(containers[name], NotStarted)
                self.starts[name] = self.starts.get(name, 0) + 1
                containers[name] = Running(1, 1, self.now)
            case AskToEnd():
                self.seen = replace(self.seen, stop_asked_at=self.now)
            case Kill(names):
                for name in names:
                    containers[name] = Ended(ExitRecord(exit_code=137, reason="Error", finished_at=self.now), 0.0)
            case ReleasePlace():
                assert not any(isinstance(state, Running) for state in containers.values())
                self.seen = replace(self.seen, placed=False, has_place=False)
            case ForgetPod():
                assert not self.seen.has_place
                self.forgotten = True
            case LookAgain(after):
                self.now += after
                # What was starting has started meanwhile.
                for name, state in containers.items():
                    if isinstance(state, Starting):
                        containers[name] = Running(1, 1, self.now)
        self.seen = replace(self.seen, containers=containers)


_STATES = st.sampled_from([NotStarted(), Starting(), RUNNING, ended(0), ended(1)])


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[Pod, PodSeen, float | None]:
    init = tuple(f"i{number}" for number in range(draw(st.integers(0, 2))))
    names = tuple(f"c{number}" for number in range(draw(st.integers(1, 3))))
    phase = draw(st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"]))
    seen = PodSeen(
        containers={name: draw(_STATES) for name in (*init, *names)},
        images=draw(st.sampled_from([{}, _THERE, {"busybox": ImageProblem("ErrImagePull", "")}])),
        placed=draw(st.booleans()),
        has_place=draw(st.booleans()),
        gone_since=draw(st.sampled_from([None, _NOW - 1])),
    )
    made = pod(*names, init=init, status=PodStatus(phase=phase))
    return (
        made,
        replace(seen, has_place=seen.has_place or seen.placed),
        draw(st.sampled_from([None, _NOW + 5, _NOW - 5])),
    )


@settings(max_examples=400)
@given(_worlds())
def test_from_any_state_repeated_planning_comes_to_rest_and_starts_nothing_twice(
    drawn: tuple[Pod, PodSeen, float | None],
) -> None:
    wanted, seen, deadline = drawn
    world = _World(seen)
    for _ in range(60):
        steps = plan_pod(wanted, world.seen, world.now, deadline)
        if not steps:
            break
        world.do(steps)
        if world.forgotten:
            break

    ending = deadline is not None or seen.gone_since is not None
    assert world.forgotten == ending
    assert all(count == 1 for count in world.starts.values())
    assert not (ending and world.starts)
    if not ending and is_over(wanted, world.seen):
        assert not world.seen.has_place
        assert not any(isinstance(state, Running) for state in world.seen.containers.values())


@pytest.mark.parametrize("deadline", [None, _NOW + 5])
def test_a_plan_never_asks_to_end_twice(deadline: float | None) -> None:
    seen = PodSeen({"a": RUNNING, "b": ended(1)}, has_place=True, stop_asked_at=_NOW)
    wanted = pod("a", "b", status=PodStatus(phase="Failed"))

    assert not any(isinstance(step, AskToEnd) for step in plan_pod(wanted, seen, _NOW + 1, deadline))
