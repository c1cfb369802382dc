"""What a run strategy wants done now: start, stop, wait or nothing.

Called by the VM's plan. Pure. One function per strategy, as KubeVirt's users know them (see the table in the tests).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from kvedge.controller.vm.start_failure_rules import seconds_until_retry
from kvedge.resources.moves.crossing import WAIT_AS_RECEIVER
from kvedge.resources.types.vm import StartFailure, StateChangeRequest
from kvedge.resources.types.vmi import VirtualMachineInstance

START_REQUEST: Final = StateChangeRequest(action="Start")


class RunState(Struct, frozen=True):
    """What the decision rests on: the VM's own VMI, what was asked for, what failed, and what was decided before."""

    strategy: str
    observed_strategy: str
    requests: tuple[StateChangeRequest, ...]
    start_failure: StartFailure | None
    vmi: VirtualMachineInstance | None
    now: datetime


class RunDecision(Struct, frozen=True):
    """`become-always` rewrites the VM's spec; `wait_seconds` counts for `wait`, `paused` for `start`."""

    verdict: Literal["nothing", "start", "stop", "wait", "become-always"]
    paused: bool = False
    wait_seconds: float = 0.0
    # A run that crashed is to be followed by another: asked for before the crashed one is deleted.
    ask_to_start: bool = False


_NOTHING: Final = RunDecision("nothing")
_STOP: Final = RunDecision("stop")


def decide_run(state: RunState) -> RunDecision:
    """What the strategy wants; an unknown strategy wants nothing."""
    rule = _RULES.get(state.strategy)
    return _NOTHING if rule is None else rule(state)


def open_requests(
    requests: Sequence[StateChangeRequest], vmi: VirtualMachineInstance | None
) -> tuple[StateChangeRequest, ...]:
    """The requests that are still to be met; only the first is ever acted on."""
    left = list(requests)
    while left and _is_met(left[0], vmi):
        del left[0]
    return tuple(left)


def _is_met(request: StateChangeRequest, vmi: VirtualMachineInstance | None) -> bool:
    if request.action == "Stop":
        return vmi is None or not request.uid or request.uid != vmi.metadata.uid
    return vmi is not None and not vmi.is_final and vmi.metadata.deletion_timestamp is None


def _decide_always(state: RunState) -> RunDecision:
    if state.vmi is None:
        return _start(state)
    return _STOP if state.vmi.is_final or _stop_asked(state) else _NOTHING


def _rerun_on_failure(state: RunState) -> RunDecision:
    vmi = state.vmi
    if vmi is None:
        just_switched = state.observed_strategy != state.strategy
        return _start(state) if just_switched or _start_asked(state) else _NOTHING
    if vmi.status.phase == "Failed" and vmi.metadata.deletion_timestamp is None:
        return RunDecision("stop", ask_to_start=not state.requests)
    return _STOP if vmi.is_final or _stop_asked(state) else _NOTHING


def _decide_manual(state: RunState) -> RunDecision:
    if state.vmi is None:
        return _start(state) if _start_asked(state) else _NOTHING
    return _STOP if _stop_asked(state) else _NOTHING


def _decide_halted(state: RunState) -> RunDecision:
    if state.vmi is None:
        # Only `start --paused` leaves such a request behind.
        return RunDecision("become-always") if _start_asked(state) else _NOTHING
    return _STOP


def _decide_once(state: RunState) -> RunDecision:
    return _start(state) if state.vmi is None else _NOTHING


def _start(state: RunState) -> RunDecision:
    seconds = seconds_until_retry(state.start_failure, state.now)
    if seconds > 0:
        return RunDecision("wait", wait_seconds=seconds)
    head = state.requests[0] if state.requests else None
    return RunDecision("start", paused=head is not None and head.data.get("paused") == "true")


def _start_asked(state: RunState) -> bool:
    return bool(state.requests) and state.requests[0].action == "Start"


def _stop_asked(state: RunState) -> bool:
    # Requests that do not mean this very run are met already, see open_requests().
    return bool(state.requests) and state.requests[0].action == "Stop"


def _wait_as_receiver(state: RunState) -> RunDecision:
    """A VMI is made that starts no guest; once that is there, the VM gets another strategy."""
    if state.vmi is None:
        return _start(state)
    return _STOP if state.vmi.is_final else _NOTHING


_RULES: Final[Mapping[str, Callable[[RunState], RunDecision]]] = {
    "Always": _decide_always,
    "RerunOnFailure": _rerun_on_failure,
    "Manual": _decide_manual,
    "Halted": _decide_halted,
    "Once": _decide_once,
    WAIT_AS_RECEIVER: _wait_as_receiver,
}
