"""What containers said, for `kubectl logs`: the node agent's side of the API server's `LogSource`.

Called from the API server's threads; it only reads, so that it works while the agent does anything else.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_state import Ended, NotStarted, look_at_container
from kvedge.standalone.agent.container.log_times import LogTimes, read_times
from kvedge.standalone.apiserver.routes.log_source import LogRequest, NoLog

_FOLLOW_SECONDS: Final = 0.25
# A line without an end is handed out in pieces of this size.
_LONGEST_LINE: Final = 1 << 16


class ContainerLogs:
    """The logs of all Pods below a directory."""

    def __init__(self, pods: Path, boot_id: str) -> None:
        self._pods = pods
        self._boot_id = boot_id

    def read_log(self, request: LogRequest, stopped: threading.Event) -> Iterator[bytes]:
        """The output in pieces, in order; see `LogSource`.

        Raises:
            NoLog: before the first piece, when there is nothing to read from.
        """
        if request.previous:
            raise NoLog(
                f'previous terminated container "{request.container}" in pod "{request.pod}" not found: '
                "containers on one box are not restarted"
            )
        if os.sep in request.pod_uid or os.sep in request.container:
            raise NoLog(f'container "{request.container}" in pod "{request.pod}" has no log')
        files = PodFiles(self._pods / request.pod_uid).container(request.container)
        if not files.log.exists():
            raise NoLog(
                f'container "{request.container}" in pod "{request.pod}" is waiting to start: it has no log yet'
            )

        def has_ended() -> bool:
            # Without its files the Pod is gone.
            return isinstance(look_at_container(files, self._boot_id), (Ended, NotStarted))

        return self._pieces(files.log, request, stopped, has_ended)

    def _pieces(
        self, path: Path, request: LogRequest, stopped: threading.Event, has_ended: Callable[[], bool]
    ) -> Iterator[bytes]:
        # Taken once: what comes later is left to following, so that no line is missed or told twice.
        end = path.stat().st_size
        older = path.with_name(f"{path.name}.1")
        parts = [(older, older.stat().st_size if older.exists() else 0), (path, end)]
        lines: Iterator[bytes] = (
            line for part, size in parts for line in _read_whole(part, size, request.since, request.timestamps)
        )
        if request.tail_lines is not None:
            lines = iter(deque(lines, maxlen=request.tail_lines))
        yield from lines
        if request.follow:
            yield from _follow(path, end, request.timestamps, stopped, has_ended)


def _read_whole(path: Path, end: int, since: datetime | None, timestamps: bool) -> Iterator[bytes]:
    """The lines of one file up to `end`."""
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream:
        times = read_times(path)
        if since is not None:
            stream.seek(min(end, times.offset_since(since)))
        yield from _lines(stream, end, times if timestamps else None)


def _lines(stream: BinaryIO, end: int, times: LogTimes | None) -> Iterator[bytes]:
    while (offset := stream.tell()) < end:
        line = stream.readline(min(_LONGEST_LINE, end - offset))
        if not line:
            return
        yield line if times is None else _stamp(times, offset) + line


def _stamp(times: LogTimes, offset: int) -> bytes:
    moment = times.at(offset) or datetime.now().astimezone()
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f%z ").encode().replace(b"+0000 ", b"Z ")


def _follow(
    path: Path, begin: int, timestamps: bool, stopped: threading.Event, has_ended: Callable[[], bool]
) -> Iterator[bytes]:
    """What is written from `begin` on, until the container ends or the reader goes."""
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream:
        stream.seek(begin)
        while not stopped.is_set():
            # Asked first: what was written before its end is read after that.
            ended = has_ended()
            size = os.fstat(stream.fileno()).st_size
            if size < stream.tell():
                # The log was emptied, having become too long.
                stream.seek(0)
            yield from _lines(stream, size, LogTimes((), ()) if timestamps else None)
            if ended:
                return
            stopped.wait(_FOLLOW_SECONDS)
