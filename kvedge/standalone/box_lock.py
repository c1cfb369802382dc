"""One `kvedge standalone` per data directory: two would both start the same VMs.

Taken first and released last by the standalone program. Touches the lock file and the version mark of the data
directory; a directory that a newer kvedge has written is refused.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Final

from kvedge import __version__
from kvedge.resources.values.whole_numbers import whole_number
from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_durably
from kvedge.runtime.services import ServiceError

# Grows when an older program would misread what a newer one has written.
LAYOUT: Final = 1
_MARK: Final = re.compile(rb"\d+ \S+\n")
# There, in `state`, while a state is being put back: half of each must not start.
RESTORING: Final = "restoring"


class BoxLock:
    """A service that owns the data directory while it runs."""

    name = "data directory"

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor = -1

    def start(self) -> None:
        """Make the directory and take it.

        Raises:
            ServiceError: when another process has it, a newer program wrote it, or it cannot be made.
        """
        self.take()
        try:
            self._check_layout(self._data_dir / "state")
        except BaseException:
            self.stop()
            raise

    def take(self) -> None:
        """Make the directory and take it, whatever version wrote it.

        Raises:
            ServiceError: when another process has it, or it cannot be made.
        """
        state = self._data_dir / "state"
        try:
            # Container disks and emptyDirs below must be reachable by the launchers' user; the state must not.
            self._data_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
            state.mkdir(mode=0o700, exist_ok=True)
            if (state / "lock").is_dir():
                put_aside(state / "lock", "a directory stands in its place")
            descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ServiceError(self.name, f"{self._data_dir} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            remedy = f"stop process {holder}, or name another directory with --data-dir"
            raise ServiceError(
                self.name, f"{self._data_dir} is in use by another kvedge standalone: {remedy}"
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def _check_layout(self, state: Path) -> None:
        if (state / RESTORING).exists():
            remedy = "run `kvedge state restore FILE` again"
            raise ServiceError(self.name, f"{self._data_dir}: putting its state back was cut short: {remedy}")
        found, newer = read_layout(state / "layout")
        if found > LAYOUT:
            remedy = f"run kvedge {newer} or newer, or name another directory with --data-dir"
            raise ServiceError(
                self.name, f"{self._data_dir} was written by kvedge {newer}, newer than {__version__}: {remedy}"
            )
        if (state / "layout").exists() and not _is_sound(state / "layout"):
            # Which version wrote it is lost; each file tells for itself whether it is of a newer one.
            put_aside(state / "layout", "it is no version mark")
        mark = f"{LAYOUT} {__version__}\n".encode()
        try:
            write_durably(state / "layout", mark, mode=0o644)
        except OSError as error:
            raise ServiceError(self.name, f"{state / 'layout'} cannot be written: {error.strerror}") from error

    def stop(self) -> None:
        """Let the directory go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def failure(self) -> str | None:
        """A lock that is held stays held."""
        return None


def is_box_running(data_dir: Path) -> bool:
    """Whether a process has taken this data directory. Nothing is made there."""
    try:
        descriptor = os.open(data_dir / "state" / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)


def _is_sound(path: Path) -> bool:
    try:
        return _MARK.fullmatch(path.read_bytes()) is not None
    except OSError:
        return False


def read_layout(path: Path) -> tuple[int, str]:
    """The layout of a data directory's version mark, and the version of kvedge that wrote it."""
    try:
        text = path.read_text(errors="replace").split()
    except (FileNotFoundError, IsADirectoryError):
        text = []
    found = whole_number(text[0]) if text else None
    return LAYOUT if found is None else found, text[1] if len(text) > 1 else "a newer version"
