"""What is known on disk of the NICs that kvedge has moved: a directory with a record, a lock and a word for each.

Written by the one process that holds a bridge's lock, and changed under the lock of all of them. A lock ends with its
process, however that ends. A record of a move without a lock says that no process waits for its confirmation any more.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kvedge.network.errors import NetworkError
from kvedge.network.nics.nic_state import NicRecord, NicRecordError, parse_record, record_text
from kvedge.runtime.durable_files import sync, write_durably

_RECORD, _LOCK, _WORD = ".json", ".lock", ".confirmed"
# No bridge's file: those have endings.
_ALL: Final = "lock"
# Steps are made in less than a second.
_ALONE_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


def nics_path(data_dir: Path) -> Path:
    """Where the records of a box lie."""
    return data_dir / "nics"


class NicBusyError(NetworkError):
    """Another process is moving this NIC."""


class NicJournal:
    """The records below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def bridges(self) -> list[str]:
        """The bridges of which there is a record."""
        if not self.directory.is_dir():
            return []
        return sorted(path.stem for path in self.directory.iterdir() if path.suffix == _RECORD)

    def read(self, bridge: str) -> NicRecord | None:
        """The record of a bridge, or None. Raises NetworkError for one that cannot be read."""
        path = self._path(bridge, _RECORD)
        try:
            return parse_record(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, NicRecordError) as error:
            remedy = f"look whether `ip address` shows the host's addresses, then remove {path}"
            raise NetworkError(
                "cannot read the record of bridge", subject=bridge, why=str(error), remedy=remedy
            ) from error

    def write(self, record: NicRecord) -> None:
        """Have it on disk, whole. Raises NetworkError."""
        with self._translate_errors(record.bridge):
            write_durably(self._path(record.bridge, _RECORD), record_text(record).encode())

    def remove(self, bridge: str) -> None:
        """Forget a bridge. Raises NetworkError."""
        with self._translate_errors(bridge):
            self._path(bridge, _WORD).unlink(missing_ok=True)
            self._path(bridge, _RECORD).unlink(missing_ok=True)
            sync(self.directory)

    def confirm(self, bridge: str) -> None:
        """Leave word that the host was reached. Raises NetworkError."""
        with self._translate_errors(bridge):
            self._path(bridge, _WORD).touch(mode=0o600)

    def take_word(self, bridge: str) -> bool:
        """Whether somebody has left word; it is taken."""
        path = self._path(bridge, _WORD)
        there = path.exists()
        path.unlink(missing_ok=True)
        return there

    def is_held(self, bridge: str) -> bool:
        """Whether a process holds the lock."""
        try:
            with self.hold(bridge):
                return False
        except NicBusyError:
            return True

    @contextmanager
    def hold(self, bridge: str) -> Iterator[None]:
        """Be the one who moves this NIC, or waits for its word. Raises NicBusyError when another process is."""
        with self._open_file(self._path(bridge, _LOCK), bridge) as descriptor:
            if not _try_lock(descriptor):
                raise NicBusyError(
                    "another process is moving the NIC of bridge", subject=bridge, remedy="wait until it is done"
                )
            yield

    @contextmanager
    def be_alone(self, wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
        """Be the only one who compares records and makes steps, of whichever bridge: two of them may be of one NIC.

        Taken behind `hold`, and not while a word is waited for. Raises NicBusyError when another process stays.
        """
        with self._open_file(self.directory / _ALL, "any NIC") as descriptor:
            for _ in range(round(_ALONE_SECONDS / _POLL_SECONDS)):
                if _try_lock(descriptor):
                    break
                wait(_POLL_SECONDS)
            else:
                raise NicBusyError("another process is moving a NIC of this host", remedy="wait until it is done")
            yield

    @contextmanager
    def _open_file(self, path: Path, subject: str) -> Iterator[int]:
        with self._translate_errors(subject):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _path(self, bridge: str, ending: str) -> Path:
        return self.directory / f"{bridge}{ending}"

    @contextmanager
    def _translate_errors(self, bridge: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NetworkError("cannot keep the record of bridge", subject=bridge, errno=error.errno or 0) from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
