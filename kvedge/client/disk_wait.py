"""Waits until a DataVolume is filled, and tells how far it is.

Called by `launch --disk --wait`. Polls the API. A disk may take any time, as long as it gets on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final

from kvedge.client.errors import RefusedError, TimedOutError
from kvedge.client.session import Session
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import NotFound, Unavailable
from kvedge.resources.types.data_volumes import DataVolume, DataVolumeStatus

_LOOK_SECONDS: Final = 0.5
_LONGEST_WORDS: Final = 500


def is_filled(status: DataVolumeStatus) -> bool:
    """Whether a guest can start from it."""
    return status.phase == "Succeeded"


def disk_summary(status: DataVolumeStatus | None) -> str:
    """What it is now, how far, and why it is no further."""
    if status is None:
        return "not made yet"
    how_far = f" {status.progress}" if status.progress not in ("", "N/A") else ""
    words = [
        item.message for item in status.conditions if item.status == "False" and item.message and item.type != "Ready"
    ]
    said = f": {'; '.join(words)[:_LONGEST_WORDS]}" if words else ""
    return f"{status.phase or 'Pending'}{how_far}{said}"


class DiskWait:
    """Waits for one DataVolume."""

    def __init__(
        self,
        session: Session,
        name: str,
        silent: float,
        progress: Callable[[], Progress],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`silent` is for how many seconds nothing new may happen."""
        self._session = session
        self._name = name
        self._silent = silent
        self._progress = progress
        self._clock = clock
        self._pause = pause

    def wait_until_filled(self) -> None:
        """Until it is filled.

        Raises:
            TimedOutError: with what it is instead, when nothing new has happened for long.
            RefusedError: when it failed for good.
        """
        # One that fails before its first byte, and begins again, says the same over and over: that is no getting on.
        seen: set[str] = set()
        last, reason, since = "", "", self._clock()
        with self._progress() as progress:
            while True:
                status: DataVolumeStatus | None = None
                with contextlib.suppress(NotFound, Unavailable):
                    status = self._session.client.get(DataVolume, self._session.namespace, self._name).status
                if status is not None and is_filled(status):
                    return
                said = disk_summary(status)
                if status is not None and status.phase == "Failed":
                    raise RefusedError(f"the disk {self._name} cannot be filled: {said}")
                if said not in seen or (said != last and status is not None and status.progress.endswith("%")):
                    since = self._clock()
                seen.add(said)
                last = said
                # Between two tries nothing is wrong for a moment.
                reason = said if ": " in said else reason
                progress.show(f"{self._name}: {said}")
                if self._clock() - since > self._silent:
                    raise TimedOutError(
                        f"nothing new happened to the disk {self._name} for {self._silent:g} s: {reason or said};"
                        f" `kvedge describe dv {self._name}` tells more"
                    )
                self._pause(_LOOK_SECONDS)
