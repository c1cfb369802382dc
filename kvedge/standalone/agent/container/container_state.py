"""What a container is doing, read from its files and from /proc: nothing needs to be remembered.

Called by the Pod loop at each pass, and so also after a restart. Ends the holder of a container once its exit status
is safe.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from kvedge.resources.codec import learn
from kvedge.runtime.durable_files import write_whole
from kvedge.runtime.linux.file_locks import is_locked
from kvedge.runtime.linux.process_stat import ProcessStat, read_stat
from kvedge.standalone.agent.container.container_files import ContainerFiles
from kvedge.standalone.agent.container.container_spec import StartedRecord
from kvedge.standalone.agent.container.termination_message import read_termination_message

log = logging.getLogger(__name__)

# 128 and the signal, as shells and runtimes have it.
_SIGNALLED: Final = 128
_LOST_EXIT_CODE: Final = 137
_START_ERROR_EXIT_CODE: Final = 128
# A killed process that does nothing ends at once.
_END_MILLISECONDS: Final = 1000


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a container ended; `signal` is 0 unless one killed it, `finished_at` in seconds since the epoch."""

    exit_code: int
    signal: int = 0
    reason: str
    message: str = ""
    finished_at: float


# Threads read several at once.
learn(ExitRecord)
learn(StartedRecord)


class NotStarted(Struct, frozen=True):
    """Nothing of it ever ran."""


class Starting(Struct, frozen=True):
    """A starter works on it right now (maybe one of an agent that was killed)."""


class Running(Struct, frozen=True):
    """Its first process lives; `pid` as the host sees it."""

    pid: int
    start_time: int
    started_at: float


class Ended(Struct, frozen=True):
    """It is over; `started_at` is None when its command never ran."""

    exit: ExitRecord
    started_at: float | None


ContainerState: TypeAlias = NotStarted | Starting | Running | Ended


def container_state(files: ContainerFiles, boot_id: str) -> ContainerState:
    """Look at a container; an exit that was not recorded yet is, before its holder is let go.

    Only for whoever works on the Pod; everybody else looks with :func:`look_at_container`.

    Raises:
        OSError: when the exit cannot be recorded (disk full): the holder then keeps it.
    """
    state = look_at_container(files, boot_id)
    if isinstance(state, Ended):
        if not files.exit.exists():
            record_exit(files, state.exit)
        record = _read_record(files.record)
        if record is not None:
            _release_holder(record, boot_id)
    return state


def look_at_container(files: ContainerFiles, boot_id: str) -> ContainerState:
    """Look at a container and change nothing."""
    record = _read_record(files.record)
    known = _read_exit(files.exit)
    # A failed start never ran anything.
    started_at = None if record is None or record["failed"] else record["started_at"]
    if known is not None:
        return Ended(known, started_at)
    if record is None:
        return Starting() if _is_locked(files.lock) else NotStarted()
    found = _look(record, boot_id)
    if isinstance(found, Running):
        return found
    message = read_termination_message(files)
    return Ended(msgspec.structs.replace(found, message=message) if message else found, started_at)


def record_exit(files: ContainerFiles, exit_record: ExitRecord) -> None:
    """Say how a container ended: for one that nobody can ask any more, or when more has become known.

    Raises:
        OSError: as the file system has it.
    """
    files.exit.parent.mkdir(parents=True, exist_ok=True)
    write_whole(files.exit, msgspec.json.encode(exit_record))


def make_lost_exit(now: float) -> ExitRecord:
    """How a container ended of which nobody knows how."""
    return ExitRecord(
        exit_code=_LOST_EXIT_CODE,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was looked at",
        finished_at=now,
    )


def signal_container(files: ContainerFiles, number: signal.Signals, boot_id: str) -> bool:
    """Signal a container's first process; SIGKILL takes all of its PID namespace along. False when it runs no more."""
    state = container_state(files, boot_id)
    if not isinstance(state, Running):
        return False
    with open_process(state.pid, state.start_time) as pidfd:
        if pidfd is None:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
            return True
    return False


@contextmanager
def open_process(pid: int, start_time: int) -> Iterator[int | None]:
    """A pidfd of the very process that was recorded, or None when it is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        # Looked at after the descriptor was had: a PID that was used again has another start time.
        found = _process_facts(pid)
        yield pidfd if found is not None and found.start_time == start_time else None
    finally:
        os.close(pidfd)


def _process_facts(pid: int) -> ProcessStat | None:
    try:
        return read_stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def _look(record: StartedRecord, boot_id: str) -> Running | ExitRecord:
    now = time.time()
    if record["failed"]:
        return ExitRecord(
            exit_code=_START_ERROR_EXIT_CODE, reason="StartError", message=record["failed"], finished_at=now
        )
    facts = _process_facts(record["pid"]) if record["boot_id"] == boot_id else None
    if facts is None or facts.start_time != record["start_time"]:
        return make_lost_exit(now)
    if not facts.has_ended:
        return Running(record["pid"], record["start_time"], record["started_at"])
    return _make_exit(facts.wait_status, now)


def _make_exit(wait_status: int, now: float) -> ExitRecord:
    code = os.waitstatus_to_exitcode(wait_status)
    if code < 0:
        return ExitRecord(exit_code=_SIGNALLED - code, signal=-code, reason="Error", finished_at=now)
    return ExitRecord(exit_code=code, reason="Error" if code else "Completed", finished_at=now)


def _release_holder(record: StartedRecord, boot_id: str) -> None:
    """End the holder, unless an earlier agent did that before it was killed."""
    if record["boot_id"] != boot_id:
        return
    with open_process(record["holder"], record["holder_start_time"]) as pidfd:
        if pidfd is None:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        # Until it has ended its cgroup cannot be removed.
        waiting = select.poll()
        waiting.register(pidfd, select.POLLIN)
        waiting.poll(_END_MILLISECONDS)


# A record that a power cut damaged is of another boot, and so is its container.
_OF_ANOTHER_BOOT: Final[StartedRecord] = {
    "boot_id": "",
    "pid": 0,
    "start_time": 0,
    "holder": 0,
    "holder_start_time": 0,
    "started_at": 0.0,
    "failed": "",
}


def _read_record(path: Path) -> StartedRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StartedRecord)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, IsADirectoryError) as error:
        # The container's remaining processes are ended before its Pod runs again.
        log.warning("%s is damaged, its container counts as lost: %s", path, error)
        return _OF_ANOTHER_BOOT


def _read_exit(path: Path) -> ExitRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ExitRecord)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, IsADirectoryError) as error:
        log.warning("%s is damaged, how its container ended is not known: %s", path, error)
        return make_lost_exit(time.time())


def _is_locked(path: Path) -> bool:
    try:
        return is_locked(path)
    except FileNotFoundError:
        return False
    except IsADirectoryError as error:
        log.warning("%s is damaged, nobody holds it: %s", path, error)
        return False
