"""What to do next for one Pod. Pure: what is seen goes in, the next steps come out.

Called by the Pod loop at each pass. Repeating the plan with what its steps bring about ends in no steps at all; a
container is planned to start only when it is seen that it never did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field

from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Container, Pod
from kvedge.resources.values.durations import bound_grace
from kvedge.standalone.agent.container.container_state import ContainerState, Ended, NotStarted, Running, Starting
from kvedge.standalone.agent.pod.pod_checks import rejection

# A Pod whose object is gone was deleted by force, unless the store forgot it: it gets this long to end by itself.
FORCED_GRACE_SECONDS: Final = 2.0
# How soon a start of an earlier agent that is still under way is looked at again.
_LOOK_AGAIN: Final = 0.2


class ImageProblem(Struct, frozen=True):
    """Why an image is not there: a waiting reason of Kubernetes and a message."""

    reason: str
    message: str


class PodSeen(Struct, frozen=True):
    """One Pod as it is on this node; times in seconds since the epoch."""

    containers: Mapping[str, ContainerState]
    # By reference: None for an image that is there; references that nobody asked for yet are missing.
    images: Mapping[str, ImageProblem | None] = field(default_factory=dict)
    # Volumes, network and cgroup were made.
    placed: bool = False
    # This agent has not limited its CPU time yet.
    unlimited: bool = False
    # Anything of it is left on this node: volumes, network, cgroup.
    has_place: bool = False
    # A Pod of the same VM that has not ended yet, by name.
    predecessor: str = ""
    # When its containers were asked to end, by this agent.
    stop_asked_at: float | None = None
    # When it was first seen that its object is gone.
    gone_since: float | None = None
    # No client deleted it: the object store was put back to before it, or is a new one.
    forgotten: bool = False
    # Containers whose liveness probe says no: how long they may take to end, None for as long as the Pod may.
    unhealthy: Mapping[str, float | None] = field(default_factory=dict)
    # When those were asked to end.
    unhealthy_since: Mapping[str, float] = field(default_factory=dict)


class AskForImages(Struct, frozen=True):
    """See to it that these images are in the store."""

    references: tuple[str, ...]


class MakePlace(Struct, frozen=True):
    """Make volumes, network, cgroup."""


class StartContainer(Struct, frozen=True):
    """Start a container that never ran."""

    name: str


class LimitCpu(Struct, frozen=True):
    """Limit its CPU time. Not before a container runs, whose start would take several tenths of a second longer."""


class AskToEnd(Struct, frozen=True):
    """SIGTERM for these containers."""

    names: tuple[str, ...]


class EndUnhealthy(Struct, frozen=True):
    """SIGTERM for a container whose liveness probe says no."""

    name: str


class Kill(Struct, frozen=True):
    """SIGKILL for these containers with all their processes."""

    names: tuple[str, ...]


class ReleasePlace(Struct, frozen=True):
    """Take network and cgroup back; the volumes go with the Pod itself."""


class ForgetPod(Struct, frozen=True):
    """Remove the Pod's directory, and then its object."""


class LookAgain(Struct, frozen=True):
    """Nothing to do before so many seconds have passed."""

    after: float


Step: TypeAlias = (
    AskForImages
    | MakePlace
    | StartContainer
    | LimitCpu
    | AskToEnd
    | EndUnhealthy
    | Kill
    | ReleasePlace
    | ForgetPod
    | LookAgain
)


def plan_pod(pod: Pod, seen: PodSeen, now: float, deadline: float | None) -> tuple[Step, ...]:
    """The next steps for a Pod of this node; `deadline` is its deletionTimestamp, None while it is wanted."""
    if seen.gone_since is not None:
        forced = seen.gone_since + (grace_seconds(pod) if seen.forgotten else FORCED_GRACE_SECONDS)
        return _plan_end(seen, now, forced if deadline is None else min(forced, deadline)) or _forget()
    if deadline is not None:
        return _plan_end(seen, now, deadline) or _forget()
    if is_over(pod, seen):
        # A Pod that failed in one container ends in all.
        ending = _plan_end(
            seen, now, now + grace_seconds(pod) if seen.stop_asked_at is None else _find_deadline(pod, seen)
        )
        return ending or ((ReleasePlace(),) if seen.has_place else ())
    limit = (LimitCpu(),) if seen.unlimited and _find_running(seen) else ()
    return (*limit, *_plan_run(pod, seen), *_plan_unhealthy(pod, seen, now))


def is_over(pod: Pod, seen: PodSeen) -> bool:
    """Whether nothing of this Pod may be started any more, though its object stays."""
    if pod.status.phase in FINAL_POD_PHASES or rejection(pod) is not None:
        return True
    if any(_has_failed(seen.containers.get(item.name)) for item in pod.spec.init_containers):
        return True
    return all(isinstance(seen.containers.get(item.name), Ended) for item in pod.spec.containers)


def grace_seconds(pod: Pod) -> int:
    """How long its containers get to end: Kubernetes' default is 30."""
    wanted = pod.spec.termination_grace_period_seconds
    return 30 if wanted is None else bound_grace(wanted)


def image_references(pod: Pod) -> tuple[str, ...]:
    """Every image of a Pod's containers and volumes, each once."""
    containers = [item.image for item in (*pod.spec.init_containers, *pod.spec.containers)]
    volumes = [item.image.reference for item in pod.spec.volumes if item.image is not None]
    return tuple(dict.fromkeys([*containers, *volumes]))


def startable(pod: Pod, containers: Mapping[str, ContainerState]) -> Iterable[Container]:
    """The containers whose turn it is: init containers one after the other, then all others at once."""
    for item in pod.spec.init_containers:
        state = containers.get(item.name, NotStarted())
        if isinstance(state, NotStarted):
            return (item,)
        if not isinstance(state, Ended) or state.exit.exit_code != 0:
            return ()
    return tuple(
        item for item in pod.spec.containers if isinstance(containers.get(item.name, NotStarted()), NotStarted)
    )


def _plan_run(pod: Pod, seen: PodSeen) -> tuple[Step, ...]:
    waiting = _waiting_starts(seen)
    due = tuple(startable(pod, seen.containers))
    if not due:
        return waiting
    if seen.predecessor:
        # Never two of one VM, whatever the API says: the other's end is looked for again.
        return (LookAgain(_LOOK_AGAIN),)
    missing = tuple(reference for reference in image_references(pod) if seen.images.get(reference, _UNKNOWN))
    if missing:
        return (AskForImages(missing),)
    place = () if seen.placed else (MakePlace(),)
    return (*place, *(StartContainer(item.name) for item in due), *waiting)


_UNKNOWN: Final = ImageProblem("", "")


def _plan_end(seen: PodSeen, now: float, deadline: float) -> tuple[Step, ...]:
    """Steps until no container is left; none when that is so."""
    alive = _find_running(seen)
    if not alive:
        return _waiting_starts(seen)
    if now >= deadline:
        return (Kill(alive), LookAgain(_LOOK_AGAIN))
    asked = () if seen.stop_asked_at is not None else (AskToEnd(alive),)
    return (*asked, LookAgain(max(_LOOK_AGAIN, deadline - now)))


def _find_running(seen: PodSeen) -> tuple[str, ...]:
    return tuple(name for name, state in seen.containers.items() if isinstance(state, Running))


def _plan_unhealthy(pod: Pod, seen: PodSeen, now: float) -> Iterator[Step]:
    """A container that is not alive gets its time to end, and is then killed; none is ever started again."""
    for name, grace in seen.unhealthy.items():
        if not isinstance(seen.containers.get(name), Running):
            continue
        asked = seen.unhealthy_since.get(name)
        if asked is None:
            yield EndUnhealthy(name)
            continue
        left = asked + (grace_seconds(pod) if grace is None else grace) - now
        if left <= 0:
            yield Kill((name,))
        yield LookAgain(max(_LOOK_AGAIN, left))


def _waiting_starts(seen: PodSeen) -> tuple[Step, ...]:
    starting = any(isinstance(state, Starting) for state in seen.containers.values())
    return (LookAgain(_LOOK_AGAIN),) if starting else ()


def _forget() -> tuple[Step, ...]:
    return (ReleasePlace(), ForgetPod())


def _find_deadline(pod: Pod, seen: PodSeen) -> float:
    assert seen.stop_asked_at is not None
    return seen.stop_asked_at + grace_seconds(pod)


def _has_failed(state: ContainerState | None) -> bool:
    return isinstance(state, Ended) and state.exit.exit_code != 0
