"""Looks at a drop-in directory again and again, in a thread of its own.

Made by the services of one box. A slow poll, as inotify sees neither network file systems nor what is bind-mounted
later, and a whole file must lie still for one look anyway.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Node
from kvedge.runtime.background import BackgroundThread
from kvedge.standalone.drop_ins.dropped_files import NotTrusted

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 2.0
# An import is given up between two of its pieces.
_STOP_SECONDS: Final = 10.0


class Stopping(Exception):
    """kvedge stops; what was begun is given up, and taken up again at the next start."""


class Teller:
    """Says what became of a dropped file: in the log, and as an Event of the Node; the same thing once."""

    def __init__(self, client: KubeClient, component: str, node: str) -> None:
        self.client = client
        self._events = EventRecorder(client, component, node)
        # Events of a Node carry its name as the UID, as those of a kubelet do.
        self._node = Node(metadata=ObjectMeta(name=node, uid=node))
        self._told: dict[str, str] = {}

    def start(self) -> None:
        """Begin to send Events."""
        self._events.start()

    def stop(self) -> None:
        """Send what is left, and close the client."""
        self._events.stop()
        self.client.close()

    def tell_success(self, path: Path, reason: str, message: str) -> None:
        """Something was brought in."""
        self._told.pop(str(path), None)
        log.info("%s", message, extra={"facts": {"file": path}})
        self._events.record(self._node, "Normal", reason, message)

    def tell_fault(self, path: Path, reason: str, message: str) -> None:
        """Something is wrong with a file; told once until something else is."""
        if self._told.get(str(path)) == message:
            return
        self._told[str(path)] = message
        log.error("%s", message, extra={"facts": {"file": path}})
        self._events.record(self._node, "Warning", reason, message)

    def forget(self, path: Path) -> None:
        """The file is gone, or good."""
        self._told.pop(str(path), None)


class DropIns(Protocol):
    """One drop-in directory."""

    directory: Path

    def look(self, keep_on: Callable[[], None]) -> None:
        """Bring in what is new; `keep_on` raises Stopping when it is time."""


class DropInLoop:
    """A service that looks at one drop-in directory."""

    def __init__(self, name: str, drop_ins: DropIns, teller: Teller) -> None:
        self.name = name
        self._drop_ins = drop_ins
        self._teller = teller
        self._stopping = threading.Event()
        self._thread = BackgroundThread(name.replace(" ", "-"), self._run)

    def start(self) -> None:
        """Look at what is there already, and at what comes."""
        self._teller.start()
        self._thread.start()

    def stop(self) -> None:
        """Give up what is being brought in."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self._teller.stop()

    def failure(self) -> str | None:
        """Never: no file that somebody drops ends the box."""
        return None

    def _run(self) -> None:
        while True:
            try:
                self._drop_ins.look(self._keep_on)
            except Stopping:
                return
            except NotTrusted as error:
                self._teller.tell_fault(self._drop_ins.directory, "DropInsNotTrusted", str(error))
            except OSError as error:
                message = f"{self._drop_ins.directory} cannot be read: {error.strerror or error}"
                self._teller.tell_fault(self._drop_ins.directory, "DropInsUnreadable", message)
            except Exception as error:
                # No file may end the loop, which the VMs' manifests depend on: the error is told, and the loop goes on.
                log.exception("a look at a drop-in directory failed")
                self._teller.tell_fault(
                    self._drop_ins.directory, "DropInsFailed", f"{self._drop_ins.directory}: {error!r}"
                )
            if self._stopping.wait(POLL_SECONDS):
                return

    def _keep_on(self) -> None:
        if self._stopping.is_set():
            raise Stopping
