"""What this node has promised, kept in a file: a handler that starts anew must know it before it feeds a watchdog.

Read and written by the fence service. It survives the handler and not the machine: after a boot it means nothing. What
it says may be older than what is so, never newer: a renewal counts once it is here.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvedge.handler.fencing.fence_plan import Promise
from kvedge.runtime.durable_files import write_whole


class RecordError(Exception):
    """The record is there, and cannot be read or written; the text says why."""


class PromiseRecord:
    """One file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, boot_id: str) -> Promise:
        """What was promised in this boot; nothing where there is no record of it.

        Raises:
            RecordError: when nobody can tell.
        """
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=Promise)
        except FileNotFoundError:
            return Promise(boot_id)
        except (OSError, msgspec.DecodeError) as error:
            raise RecordError(f"{self._path}: {error}") from error
        return found if found.boot_id == boot_id else Promise(boot_id)

    def save(self, promise: Promise) -> None:
        """Keep it.

        Raises:
            RecordError: when it cannot be written; then it does not hold.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, msgspec.json.encode(promise))
        except OSError as error:
            raise RecordError(f"{self._path}: {error}") from error
