"""Notices that containers end, without asking again and again.

Called by the Pod loop with the processes it has seen. One named thread, one descriptor per container.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from kvedge.kube.work_queue import Key
from kvedge.runtime.background import BackgroundThread

_WAKE: Final = b"."


class ContainerWatch:
    """Calls `on_end(key)` once for each watched process that ends."""

    def __init__(self, on_end: Callable[[Key], None]) -> None:
        self._on_end = on_end
        self._poll = select.epoll()
        self._wake_in, self._wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._wake_in, select.EPOLLIN)
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[tuple[int, int], Key]] = {}
        self._known: set[tuple[int, int]] = set()
        self._untold: deque[Key] = deque()
        self._thread: BackgroundThread | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to watch."""
        self._thread = BackgroundThread("container-watch", self._run)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close what it watched; containers are not touched."""
        self._stopping = True
        os.write(self._wake_out, _WAKE)
        if self._thread is not None:
            self._thread.join()
        for descriptor in self._watched:
            os.close(descriptor)
        self._poll.close()
        os.close(self._wake_in)
        os.close(self._wake_out)

    def watch(self, key: Key, pid: int, start_time: int) -> None:
        """Watch a process, once however often it is asked; the end of a process that is gone is told at once."""
        with self._lock:
            if (pid, start_time) in self._known or self._stopping:
                return
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                self._on_end(key)
                return
            self._known.add((pid, start_time))
            self._watched[descriptor] = ((pid, start_time), key)
            self._poll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

    def failure(self) -> str | None:
        """Why it no longer watches, or None."""
        return None if self._stopping or self._thread is None else self._thread.failure()

    def _run(self) -> None:
        while not self._stopping:
            self._tell()
            for descriptor, _ in self._poll.poll():
                if descriptor != self._wake_in:
                    self._note_end(descriptor)

    def _note_end(self, descriptor: int) -> None:
        with self._lock:
            identity, key = self._watched.pop(descriptor)
            self._known.discard(identity)
            # A closed descriptor leaves the poll as well.
            os.close(descriptor)
        self._untold.append(key)

    def _tell(self) -> None:
        while self._untold:
            self._on_end(self._untold[0])
            # Only now: a listener that an exception kept from hearing is told when the work begins anew.
            self._untold.popleft()
