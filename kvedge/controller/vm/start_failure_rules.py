"""How long a VM waits that ended before it ran: KubeVirt's numbers.

Called by the VM's plan. Pure; the jitter is handed in. Only runs that never reached Running count: a guest that
crashes after it ran is started again at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from kvedge.resources.types.vm import StartFailure, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import parse_rfc3339, rfc3339

_UNIT_SECONDS: Final = 10
_LONGEST_SECONDS: Final = 300
# Strategies that start nothing by themselves forget what failed.
_FORGETFUL: Final = frozenset({"Manual", "Halted"})


def delay_seconds(failures: int, jitter: float) -> float:
    """The delay after n failures in a row: 10 s × n², up to half as much again by `jitter` (0 to 1), at most 300."""
    base = _UNIT_SECONDS * failures**2
    return min(float(_LONGEST_SECONDS), base + jitter * base / 2)


def next_start_failure(
    vm: VirtualMachine, vmi: VirtualMachineInstance | None, now: datetime, jitter: float
) -> StartFailure | None:
    """What `status.startFailure` should be, given the VM's own VMI."""
    failure = vm.status.start_failure
    if vm.run_strategy in _FORGETFUL:
        return None
    if vmi is None:
        return failure
    if vmi.status.phase == "Running" or vmi.has_ever_run:
        return None
    if not vmi.is_final:
        return failure
    if failure is not None and failure.last_failed_vmi_uid == vmi.metadata.uid:
        return failure
    count = (failure.consecutive_fail_count if failure is not None else 0) + 1
    retry = now + timedelta(seconds=delay_seconds(count, jitter))
    return StartFailure(
        consecutive_fail_count=count, last_failed_vmi_uid=vmi.metadata.uid, retry_after_timestamp=rfc3339(retry)
    )


def seconds_until_retry(failure: StartFailure | None, now: datetime) -> float:
    """How long no start may be tried; 0 when one may.

    A moment that is further away than any delay was written by another clock, that of the controller before: waiting
    for it could take hours, and the next failure is counted by ours.
    """
    if failure is None or failure.retry_after_timestamp is None:
        return 0.0
    seconds = (parse_rfc3339(failure.retry_after_timestamp) - now).total_seconds()
    return seconds if 0 < seconds <= _LONGEST_SECONDS else 0.0
