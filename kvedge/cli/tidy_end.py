"""A verb that is told to end cleans up as after Ctrl-C: nothing half made is left for a shutdown or a closed terminal.

Used by verbs that make what they take back when they fail. Changes how this process takes signals, while it is entered.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

# A service manager's word, and that of a terminal that is gone.
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def tidy_end() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, once; a second one does not break the cleaning off."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread is given signals.
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for each in _ENDS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
