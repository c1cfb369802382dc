"""The process that moves a NIC and waits for the confirmation: how it is started, and how others see what it does.

Started by `kvedge network create --nic`, as a unit of systemd where that runs the host, so that it ends neither with
the session nor with its terminal; otherwise as the leader of a session of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.network.errors import NetworkError
from kvedge.network.nics.nic_back import take_back
from kvedge.network.nics.nic_journal import NicBusyError, NicJournal
from kvedge.network.nics.nic_move import CONFIRM_SECONDS, try_nic
from kvedge.network.nics.nic_state import NicPhase, NicRecord
from kvedge.runtime.program import foreign_environment, program_command

# The verb that runs it; nobody types it.
VERB: Final = ("network", "guard-nic")
_SYSTEMD: Final = Path("/run/systemd/system")
_POLL_SECONDS: Final = 0.1
# Until the first word of it: a program starts, and looks at the NIC.
_START_SECONDS: Final = 20.0


def start_guard(journal: NicJournal, nic: str, bridge: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start it. Raises NetworkError when it cannot be started; nothing is moved then."""
    command = [*program_command(), *VERB, nic, bridge, str(journal.directory.resolve())]
    try:
        return subprocess.Popen(
            [*_leave_session(bridge), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=foreign_environment(environment),
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        raise NetworkError("cannot start the guard of NIC", subject=nic, errno=error.errno or 0) from error


def run_guard(nic: str, bridge: str, directory: Path, seconds: float = CONFIRM_SECONDS) -> bool:
    """What the process does; whether the NIC stays moved. Raises NetworkError."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Moved back, and then ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return try_nic(NicJournal(directory), nic, bridge, seconds)


def wait_moved(
    journal: NicJournal, bridge: str, guard: subprocess.Popen[bytes], wait: Callable[[float], None] = time.sleep
) -> NicPhase:
    """Wait until the NIC is moved; whether it waits for a word, or stays already. Raises NetworkError."""
    for _ in range(round(_START_SECONDS / _POLL_SECONDS)):
        record = journal.read(bridge)
        phase = record.phase if record is not None else NicPhase.MOVING
        if phase in (NicPhase.MOVED, NicPhase.KEPT):
            return phase
        if phase is NicPhase.FAILED or guard.poll() is not None:
            # Until its lock is free, it is still at work.
            with suppress(NicBusyError):
                return _judge_end(take_back(journal, bridge), bridge)
        wait(_POLL_SECONDS)
    return _judge_end(take_back(journal, bridge), bridge)


def _judge_end(record: NicRecord | None, bridge: str) -> NicPhase:
    """How far a guard had come that has ended. Raises NetworkError unless the NIC stays moved."""
    if record is not None and record.phase is NicPhase.KEPT:
        return record.phase
    if record is not None and record.phase is NicPhase.FAILED:
        raise NetworkError(record.error)
    raise NetworkError(
        "the guard of bridge has ended early", subject=bridge, remedy="the NIC is as it was; create the network again"
    )


def outcome(journal: NicJournal, bridge: str) -> bool | None:
    """Whether the move stays or was taken back; None while its guard waits. Raises NetworkError."""
    try:
        # A guard that was killed waits no more.
        record = take_back(journal, bridge)
    except NicBusyError:
        return None
    return record is not None and record.phase is NicPhase.KEPT


def waiting_bridges(journal: NicJournal) -> Sequence[str]:
    """The bridges that wait for a word. Raises NetworkError."""
    return [bridge for bridge in journal.bridges() if _is_moved(journal, bridge) and journal.is_held(bridge)]


def _is_moved(journal: NicJournal, bridge: str) -> bool:
    record = journal.read(bridge)
    return record is not None and record.phase is NicPhase.MOVED


def _leave_session(bridge: str) -> list[str]:
    """What starts a program beneath systemd instead of the session's own processes."""
    if not _SYSTEMD.is_dir() or os.readlink("/proc/1/ns/net") != os.readlink("/proc/self/ns/net"):
        return []
    return ["systemd-run", "--quiet", "--collect", "--wait", f"--unit=kvedge-nic-{bridge}", "--"]
