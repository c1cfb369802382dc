"""Work in a thread of its own, which enters another mount namespace or user, and ends with that.

Called by whatever hands files and mounts to a launcher. The caller waits and gets the result, or the exception.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from kvedge.runtime.linux.namespaces import CLONE_FS, unshare

T = TypeVar("T")


def in_own_thread(work: Callable[[], T]) -> T:
    """What `work` returns or raises in a thread that may change its mount namespace or its user, and ends with it."""
    outcome: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            # Root and working directory are shared among threads otherwise, and such a thread cannot move.
            unshare(CLONE_FS)
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run, name="in-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return outcome[0]
