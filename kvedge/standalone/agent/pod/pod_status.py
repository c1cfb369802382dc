"""A Pod's status from what is seen of it. Pure.

Called by the Pod loop after each pass; it writes the outcome when it differs from what the Pod says. Conditions of
others (readiness gates) are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct, field

from kvedge.resources.meta import Condition, condition
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import (
    Container,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodIp,
    PodStatus,
    ResourceAmounts,
)
from kvedge.resources.types.core import ContainerState as ContainerStateStatus
from kvedge.runtime.clock import rfc3339
from kvedge.standalone.agent.container.container_plan import qos_class
from kvedge.standalone.agent.container.container_state import ContainerState, Ended, NotStarted, Running, Starting
from kvedge.standalone.agent.pod.pod_checks import Rejection
from kvedge.standalone.agent.pod.pod_plan import ImageProblem

_OURS: Final = ("Initialized", "Ready", "ContainersReady", "PodScheduled", "PodResizePending", "PodResizeInProgress")
# The last that is kept of a message, in characters.
_LONGEST_MESSAGE: Final = 4096


class StatusFacts(Struct, frozen=True):
    """What a Pod's status is made from."""

    containers: Mapping[str, ContainerState]
    images: Mapping[str, ImageProblem | None] = field(default_factory=dict)
    # By container: the id of its image, as imageID shows it.
    image_ids: Mapping[str, str] = field(default_factory=dict)
    # By container: whether its readiness probe, if it has one, says yes.
    probed: Mapping[str, bool] = field(default_factory=dict)
    # Why it could not be set up or started, at the last attempt.
    problem: ImageProblem | None = None
    # By container: what is set aside for it; and why the Pod has not got what it asks for by now.
    sizes: Mapping[str, ResourceAmounts] = field(default_factory=dict)
    resize: Condition | None = None
    rejection: Rejection | None = None
    # IPv4 first.
    addresses: tuple[str, ...] = ()
    host_address: str = ""


def pod_status(pod: Pod, facts: StatusFacts, now: datetime) -> PodStatus:
    """The whole status that a Pod should show."""
    stamp = rfc3339(now)
    if facts.rejection is not None:
        return PodStatus(
            phase="Failed",
            reason=facts.rejection.reason,
            message=f"Pod was rejected: {facts.rejection.message}",
            start_time=pod.status.start_time or stamp,
            qos_class=pod.status.qos_class or qos_class(pod),
            host_ip=facts.host_address,
            conditions=pod.status.conditions,
        )
    init = [_container_status(pod, item, facts, initial=True) for item in pod.spec.init_containers]
    main = [_container_status(pod, item, facts, initial=False) for item in pod.spec.containers]
    phase = pod_phase(pod, facts.containers)
    return PodStatus(
        phase=phase,
        conditions=_conditions(pod, phase, init, main, stamp, facts.resize),
        pod_ip=next(iter(facts.addresses), ""),
        pod_ips=[PodIp(ip=address) for address in facts.addresses],
        host_ip=facts.host_address,
        start_time=pod.status.start_time or stamp,
        qos_class=pod.status.qos_class or qos_class(pod),
        container_statuses=main,
        init_container_statuses=init,
    )


def pod_phase(pod: Pod, containers: Mapping[str, ContainerState]) -> str:
    """Pending, Running, Succeeded or Failed, as the kubelet finds it for restartPolicy Never."""
    if pod.status.phase in FINAL_POD_PHASES:
        # Over is over.
        return pod.status.phase
    init = [containers.get(item.name, NotStarted()) for item in pod.spec.init_containers]
    main = [containers.get(item.name, NotStarted()) for item in pod.spec.containers]
    if any(isinstance(state, Ended) and state.exit.exit_code for state in init):
        return "Failed"
    if all(isinstance(state, Ended) for state in main):
        return "Failed" if any(_code(state) for state in main) else "Succeeded"
    if any(isinstance(state, Running) for state in main):
        return "Running"
    if pod.status.phase == "Running":
        return "Running"
    return "Pending"


def _code(state: ContainerState) -> int:
    return state.exit.exit_code if isinstance(state, Ended) else 0


def _container_status(pod: Pod, container: Container, facts: StatusFacts, *, initial: bool) -> ContainerStatus:
    state = facts.containers.get(container.name, NotStarted())
    image_id = facts.image_ids.get(container.name, "")
    running = isinstance(state, Running)
    if initial:
        ready = isinstance(state, Ended) and state.exit.exit_code == 0
    else:
        ready = running and facts.probed.get(container.name, container.readiness_probe is None)
    begun = not isinstance(state, (NotStarted, Starting))
    size = facts.sizes.get(container.name)
    return ContainerStatus(
        name=container.name,
        ready=ready,
        restart_count=0,
        image=container.image,
        image_id=image_id,
        container_id=_container_id(pod, container) if begun else "",
        started=running,
        state=_state(pod, container, state, facts, initial=initial),
        allocated_resources=size.requests if running and size is not None else {},
        resources=size if running else None,
    )


def _container_id(pod: Pod, container: Container) -> str:
    return f"kvedge://{pod.metadata.uid}/{container.name}"


def _state(
    pod: Pod, container: Container, state: ContainerState, facts: StatusFacts, *, initial: bool
) -> ContainerStateStatus:
    match state:
        case Running():
            return ContainerStateStatus(running=ContainerStateRunning(started_at=_time(state.started_at)))
        case Ended():
            return ContainerStateStatus(
                terminated=ContainerStateTerminated(
                    exit_code=state.exit.exit_code,
                    signal=state.exit.signal or None,
                    reason=state.exit.reason,
                    message=state.exit.message[-_LONGEST_MESSAGE:],
                    started_at=_time(state.started_at) if state.started_at else None,
                    finished_at=_time(state.exit.finished_at),
                    container_id=_container_id(pod, container),
                )
            )
        case _:
            return ContainerStateStatus(waiting=_waiting(pod, container, facts, initial=initial))


def _waiting(pod: Pod, container: Container, facts: StatusFacts, *, initial: bool) -> ContainerStateWaiting:
    problem = facts.images.get(container.image)
    if problem is None:
        # An image volume that lacks keeps every container from starting.
        volumes = [item.image.reference for item in pod.spec.volumes if item.image is not None]
        problem = next((found for name in volumes if (found := facts.images.get(name))), None)
    problem = problem or facts.problem
    if problem is not None and problem.reason:
        return ContainerStateWaiting(reason=problem.reason, message=problem.message[:_LONGEST_MESSAGE])
    if pod.spec.init_containers and not initial:
        return ContainerStateWaiting(reason="PodInitializing")
    return ContainerStateWaiting(reason="ContainerCreating")


def _time(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def _conditions(
    pod: Pod,
    phase: str,
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    stamp: str,
    resize: Condition | None,
) -> list[Condition]:
    over = "PodCompleted" if phase == "Succeeded" else "PodFailed" if phase == "Failed" else ""
    not_initialized = [status.name for status in init if not status.ready]
    not_ready = [status.name for status in main if not status.ready]
    containers_ready = not not_ready and not over
    wanted = [
        _condition(
            "Initialized",
            not not_initialized,
            "ContainersNotInitialized",
            f"containers with incomplete status: [{' '.join(not_initialized)}]",
        ),
        _ready(pod, containers_ready, not_ready, over),
        _condition("ContainersReady", containers_ready, over or "ContainersNotReady", _unready_message(not_ready)),
        _condition("PodScheduled", True, "", ""),
    ]
    wanted += [] if resize is None else [resize]
    foreign = [item for item in pod.status.conditions if item.type not in _OURS]
    return [*(_date(pod, item, stamp) for item in wanted), *foreign]


def _ready(pod: Pod, containers_ready: bool, not_ready: Sequence[str], over: str) -> Condition:
    if not containers_ready:
        return _condition("Ready", False, over or "ContainersNotReady", _unready_message(not_ready))
    for gate in pod.spec.readiness_gates:
        found = condition(pod.status.conditions, gate.condition_type)
        if found is None:
            message = f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.'
            return _condition("Ready", False, "ReadinessGatesNotReady", message)
        if found.status != "True":
            message = f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {found.status}'
            return _condition("Ready", False, "ReadinessGatesNotReady", message)
    return _condition("Ready", True, "", "")


def _unready_message(names: Sequence[str]) -> str:
    return f"containers with unready status: [{' '.join(names)}]" if names else ""


def _condition(kind: str, holds: bool, reason: str, message: str) -> Condition:
    if holds:
        return Condition(type=kind, status="True")
    return Condition(type=kind, status="False", reason=reason, message=message)


def _date(pod: Pod, wanted: Condition, stamp: str) -> Condition:
    """Give the condition the time of its last change; the time stays while the status stays."""
    known = condition(pod.status.conditions, wanted.type)
    same = known is not None and known.status == wanted.status
    wanted.last_transition_time = known.last_transition_time if known is not None and same else stamp
    return wanted
