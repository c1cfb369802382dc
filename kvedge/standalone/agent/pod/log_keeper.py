"""Keeps containers' logs in bounds, and notes when they grew.

Started by the node agent. One named thread that looks at the sizes of the logs once a second. A log that has become
too long is copied to `<name>.log.1` and emptied; the container goes on writing into the same file, as it appends.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.runtime.rounds import Rounds
from kvedge.standalone.agent.container.log_times import add_time, times_path

log = logging.getLogger(__name__)

# The kubelet's default is 10 MiB as well.
MOST_BYTES: Final = 10 << 20
_PERIOD: Final = 1.0
# A log is copied in pieces of this size; the slowest disk copies one in a moment.
_PIECE: Final = 1 << 20


class LogKeeper:
    """Watches the logs below a directory of Pods."""

    def __init__(self, pods: Path, most_bytes: int = MOST_BYTES) -> None:
        self._pods = pods
        self._most_bytes = most_bytes
        self._sizes: dict[Path, int] = {}
        self.rounds = Rounds("log-keeper", "keeps logs in bounds", _PERIOD, lambda: self.look(time.time()))

    def look(self, now: float) -> None:
        """Look at every log once."""
        sizes: dict[Path, int] = {}
        for path in self._pods.glob("*/logs/*.log"):
            self.rounds.beat()
            try:
                sizes[path] = self._look_at(path, now)
            except FileNotFoundError:
                # The Pod was removed meanwhile.
                continue
            except OSError as error:
                facts = {"log": path, "error": error.strerror}
                log.warning("a log cannot be kept in bounds", extra={"facts": facts})
        self._sizes = sizes

    def _look_at(self, path: Path, now: float) -> int:
        size = path.stat().st_size
        if size == self._sizes.get(path, 0):
            return size
        if size > self._most_bytes:
            self._rotate(path, size)
            return 0
        add_time(path, now, size)
        return size

    def _rotate(self, path: Path, size: int) -> None:
        """Copy and empty; what is written between the two is lost: the price of having no process in between.

        Only the `size` bytes that were seen are copied: a container may write as fast as they are read, without end.
        """
        older = path.with_name(f"{path.name}.1")
        temporary = path.with_name(f"{path.name}.new")
        with path.open("rb") as written, temporary.open("wb") as copy:
            while size > 0 and (piece := written.read(min(size, _PIECE))):
                copy.write(piece)
                size -= len(piece)
                self.rounds.beat()
        temporary.replace(older)
        with suppress(FileNotFoundError):
            times_path(path).replace(times_path(older))
        os.truncate(path, 0)
