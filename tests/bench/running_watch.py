"""When each VMI became Running, as a client sees it: its phases' own timestamps are whole seconds."""

from __future__ import annotations

import threading
import time

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.vmi import VirtualMachineInstance


class RunningWatch:
    """A watch on all VMIs; times are of the monotonic clock, in seconds."""

    def __init__(self, client: KubeClient) -> None:
        self._informer = Informer(client, VirtualMachineInstance)
        self._changed = threading.Condition()
        self._running: dict[str, float] = {}
        self._present: set[str] = set()
        self._ended: dict[str, str] = {}

    def start(self) -> None:
        """Watch; returns once the server has answered."""
        self._informer.on_change(self._take)
        self._informer.start()
        if not self._informer.wait_synced(30):
            raise TimeoutError("the API did not list VMIs")

    def stop(self) -> None:
        """End the watch."""
        self._informer.stop()

    def wait_running(self, names: list[str], seconds: float) -> dict[str, float]:
        """By name: when it became Running.

        Raises:
            TimeoutError: when some are not Running in time, or never will be.
        """
        self._wait(lambda: all(name in self._running for name in names) or self._failed(names), seconds)
        with self._changed:
            missing = [name for name in names if name not in self._running]
            if missing:
                told = ", ".join(f"{name} {self._ended.get(name, '')}".strip() for name in missing[:5])
                raise TimeoutError(f"{len(missing)} of {len(names)} VMIs did not get Running: {told} …")
            return {name: self._running[name] for name in names}

    def wait_gone(self, names: list[str], seconds: float) -> None:
        """Until none of them is there any more.

        Raises:
            TimeoutError: when some still are.
        """
        self._wait(lambda: self._present.isdisjoint(names), seconds)
        with self._changed:
            left = self._present.intersection(names)
            if left:
                raise TimeoutError(f"{len(left)} VMIs are not gone after {seconds} s, such as {min(left)}")
            for name in names:
                self._running.pop(name, None)

    def _failed(self, names: list[str]) -> bool:
        return any(name in self._ended for name in names)

    def _wait(self, done, seconds: float) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + seconds
        with self._changed:
            while not done() and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    def _take(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        now = time.monotonic()
        item = new or old
        assert item is not None
        with self._changed:
            name = item.metadata.name
            if new is None:
                self._present.discard(name)
            else:
                self._present.add(name)
                if new.status.phase == "Running":
                    self._running.setdefault(name, now)
                elif new.status.phase == "Failed" and new.metadata.deletion_timestamp is None:
                    self._ended[name] = f"Failed: {new.status.reason}"
            self._changed.notify_all()
