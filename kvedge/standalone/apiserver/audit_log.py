"""The audit log of one box: who did what, one JSON document a line, in a few files of bounded size.

Made by the server's parts; the dispatcher notes requests in its event loop, and a thread of its own writes. Owns
`state/audit/`. A request never waits for the log: when the disk is too slow or full, entries are lost and counted.
"""

from __future__ import annotations

import logging
import os
import queue
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.runtime.background import BackgroundThread
from kvedge.standalone.apiserver.requests.audit_entry import AuditEntry, audit_event

log = logging.getLogger(__name__)

FOLDER: Final = "audit"
_NAME: Final = "audit.log"
MOST_BYTES: Final = 5 << 20
# Beside the one that is written.
MOST_OLD: Final = 4
_MOST_WAITING: Final = 4096
_BATCH: Final = 256
_STOP_SECONDS: Final = 2.0

# Entry, stage, status and when.
_Noted = tuple[AuditEntry, str, int | None, datetime]


class AuditLog:
    """Writes what it is told of."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path = folder / _NAME
        self._most_bytes = most_bytes
        self._waiting: queue.Queue[_Noted | None] = queue.Queue(_MOST_WAITING)
        self._lost = 0
        self._fault = ""
        self._thread = BackgroundThread("audit-log", self._run)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, for two seconds at most."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            self._lost += 1
        self._thread.join(_STOP_SECONDS)

    def note(self, entry: AuditEntry, stage: str, status: int | None) -> None:
        """Have it written soon; never waits."""
        try:
            self._waiting.put_nowait((entry, stage, status, datetime.now(UTC)))
        except queue.Full:
            self._lost += 1

    def _run(self) -> None:
        while True:
            self._thread.heartbeat.rest()
            noted = [self._waiting.get()]
            self._thread.heartbeat.beat()
            while len(noted) < _BATCH and noted[-1] is not None and not self._waiting.empty():
                noted.append(self._waiting.get())
            lines = b"".join(msgspec.json.encode(audit_event(*each)) + b"\n" for each in noted if each is not None)
            try:
                self._write(lines)
            except OSError as error:
                self._lost += len(noted)
                self._tell(f"cannot be written: {error.strerror}")
            else:
                lost, self._lost = self._lost, 0
                self._tell(f"has lost {lost} entries" if lost else "")
            if noted[-1] is None:
                return

    def _write(self, lines: bytes) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            while lines:
                lines = lines[os.write(descriptor, lines) :]
            is_full = os.fstat(descriptor).st_size >= self._most_bytes
        finally:
            os.close(descriptor)
        if is_full:
            self._turn()

    def _turn(self) -> None:
        for number in range(MOST_OLD, 0, -1):
            older = self._path if number == 1 else _name_older(self._path, number - 1)
            if older.exists():
                older.replace(_name_older(self._path, number))

    def _tell(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.error("the audit log %s", fault, extra={"facts": {"file": self._path}})
        self._fault = fault


def read_audit(folder: Path) -> Iterator[JsonObject]:
    """The Events that are kept, the oldest first; a line that a power cut has torn is left out."""
    path = folder / _NAME
    for each in (*(_name_older(path, number) for number in range(MOST_OLD, 0, -1)), path):
        try:
            file = each.open("rb")
        except FileNotFoundError:
            continue
        with file:
            for line in file:
                try:
                    yield msgspec.json.decode(line, type=dict)
                except msgspec.DecodeError:
                    continue


def _name_older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
