"""Waits until a VM has moved to another box, or stays; tells how far it is, and tidies up after it.

Called by `kvedge migrate --to --wait`. Reads both API servers, and takes away what a guest that stays does not need on
the target.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final

from kvedge.client.boxes.box_credentials import drop_credential
from kvedge.client.boxes.box_move import BoxMove, undo
from kvedge.client.errors import ClientError, RefusedError, TimedOutError
from kvedge.client.migrations import describe_progress, describe_step, list_migrations
from kvedge.client.subresources import VMI, get
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.resources.moves.crossing import MOVED_TO, MOVES_TO, WAIT_AS_RECEIVER
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_FIRST_LOOK: Final = 0.1
_LONGEST_LOOK: Final = 1.0


def wait_until_moved(move: BoxMove, timeout: float, progress: Callable[[], Progress]) -> str:
    """Until the guest runs on the target.

    Raises:
        RefusedError: when it stays; with the reason. What was made for it on the target is gone then.
        TimedOutError: with how far it is.
    """
    began, pause = time.monotonic(), _FIRST_LOOK
    deadline = began + timeout
    half: VirtualMachineInstanceMigration | None = None
    with progress() as shown:
        while True:
            with contextlib.suppress(Unavailable):
                # It goes with its VMI, soon after the guest has left: the VM says what became of it.
                found = _find_half(move)
                half, mark = found or half, _find_mark(move)
                is_over = half is not None and found is None and not mark
                if half is not None and (half.status.phase == "Failed" or is_over):
                    raise RefusedError(_tidy_up(move, half))
                if mark == MOVED_TO and _runs_there(move):
                    drop_credential(move.source, move.migration_id)
                    return f"VM {move.name} moved to {move.host}, in {time.monotonic() - began:.0f} s"
            step = _describe(move, half)
            shown.show(f"{move.name}: {step}")
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"timed out after {timeout:g} s waiting for VM {move.name} to move to {move.host}: {step}; the"
                    f" boxes go on by themselves, and `kvedge migrate-cancel {move.name}` has it stay"
                )
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(_LONGEST_LOOK, pause * 1.5)


def _find_half(move: BoxMove) -> VirtualMachineInstanceMigration | None:
    return next((each for each in list_migrations(move.source, move.name) if each.job == move.migration_id), None)


def _find_mark(move: BoxMove) -> str:
    """Which mark the VM has here: that it moves, or that it has moved; empty when it has neither, or is gone."""
    with contextlib.suppress(NotFound):
        marks = move.source.client.get(VirtualMachine, move.source.namespace, move.name).metadata.annotations
        return next((mark for mark in (MOVED_TO, MOVES_TO) if marks.get(mark)), "")
    return ""


def _runs_there(move: BoxMove) -> bool:
    """Whether the target's VM has its guest, and the run strategy that it had."""
    client, namespace = move.target.client, move.source.namespace
    try:
        vm = client.get(VirtualMachine, namespace, move.name)
        vmi = client.get(VirtualMachineInstance, namespace, move.name)
    except NotFound:
        return False
    return vm.run_strategy != WAIT_AS_RECEIVER and vmi.status.phase == "Running"


def _describe(move: BoxMove, half: VirtualMachineInstanceMigration | None) -> str:
    if half is None:
        return "not seen by the controller yet"
    step = describe_step(half)
    if half.status.phase == "Succeeded":
        return "the target has taken it"
    if half.status.phase != "Running":
        return step
    with contextlib.suppress(KubeError, ClientError):
        if sent := describe_progress(get(move.source, VMI, move.name, "migration")):
            return f"{step}: {sent}"
    return step


def _tidy_up(move: BoxMove, half: VirtualMachineInstanceMigration) -> str:
    """What is said of a guest that stays; the target's part goes once nothing of it can be there."""
    state = half.status.migration_state
    reason = state.failure_reason if state is not None and state.failure_reason else "see its events"
    text = f"VM {move.name} stays: its migration to {move.host} failed: {reason}"
    if _is_taken_there(move):
        return f"{text}; the target says that it has taken the guest: look at both before you start either"
    undo(move)
    return text


def _is_taken_there(move: BoxMove) -> bool:
    try:
        vmi = move.target.client.get(VirtualMachineInstance, move.source.namespace, move.name)
    except NotFound:
        return False
    state = vmi.status.migration_state
    return state is not None and state.migration_uid == move.migration_id and bool(state.target_taken_timestamp)
