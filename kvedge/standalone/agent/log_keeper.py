"""Keeps containers' logs in bounds, and notes when they grew.

Started by the node agent. One named thread that looks at the sizes of the logs once a second. A log that has become
too long is copied to `<name>.log.1` and emptied; the container goes on writing into the same file, as it appends.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.standalone.agent.log_times import add_time, times_path

log = logging.getLogger(__name__)

# The kubelet's default is 10 MiB as well.
MOST_BYTES: Final = 10 << 20
_PERIOD: Final = 1.0


class LogKeeper:
    """Watches the logs below a directory of Pods."""

    def __init__(self, pods: Path, most_bytes: int = MOST_BYTES) -> None:
        self._pods = pods
        self._most_bytes = most_bytes
        self._sizes: dict[Path, int] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="log-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def failure(self) -> str | None:
        """Why the logs are no longer kept in bounds, or None."""
        if self._stop.is_set() or self._thread is None or self._thread.is_alive():
            return None
        return "the thread that keeps logs in bounds has ended"

    def look(self, now: float) -> None:
        """Look at every log once."""
        sizes: dict[Path, int] = {}
        for path in self._pods.glob("*/logs/*.log"):
            try:
                sizes[path] = self._look_at(path, now)
            except FileNotFoundError:
                # The Pod was removed meanwhile.
                continue
            except OSError as error:
                facts = {"log": path, "error": error.strerror}
                log.warning("a log cannot be kept in bounds", extra={"facts": facts})
        self._sizes = sizes

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD):
            self.look(time.time())

    def _look_at(self, path: Path, now: float) -> int:
        size = path.stat().st_size
        if size == self._sizes.get(path, 0):
            return size
        if size > self._most_bytes:
            _rotate(path)
            return 0
        add_time(path, now, size)
        return size


def _rotate(path: Path) -> None:
    """Copy and empty; what is written between the two is lost, which is the price of having no process in between."""
    older = path.with_name(f"{path.name}.1")
    temporary = path.with_name(f"{path.name}.new")
    shutil.copyfile(path, temporary)
    temporary.replace(older)
    with suppress(FileNotFoundError):
        times_path(path).replace(times_path(older))
    os.truncate(path, 0)
