"""Tells a guest about its host: writes the disk of metrics every few seconds, and answers on their serial port.

Kept by `domain_run`. Whether the guest has either is seen by the image and the socket, so that a launcher that is
started again, or gets a guest from another node, goes on. A guest with neither costs no thread. QEMU is never asked:
one that hangs holds up nothing here.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.resources.disks.metrics_disk import METRICS_IMAGE, NODE_VARIABLE
from kvedge.resources.names import METRICS_SOCKET
from kvedge.runtime.background import BackgroundThread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
    from kvedge.rpc.launcher_pb2 import SyncRequest

log = logging.getLogger(__name__)

# As in KubeVirt.
ROUND_SECONDS: Final = 5.0


class MetricsKeeper:
    """The metrics of one guest; every method may be called from any thread."""

    def __init__(
        self, session: LibvirtSession, run_directory: str, root: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        """`root` is before the Pod's paths; `clock()` is in seconds since 1970."""
        self._session = session
        self._clock = clock
        self._image = root + METRICS_IMAGE
        self._socket_path = f"{run_directory}/{METRICS_SOCKET}"
        self._starting = threading.Lock()
        self._thread: BackgroundThread | None = None
        self._qemu = 0
        self._refusal = ""

    def begin(self) -> None:
        """Tell the guest from now on, if it reads metrics."""
        if not (os.path.exists(self._image) or os.path.exists(self._socket_path)):
            return
        with self._starting:
            if self._thread is None:
                self._thread = BackgroundThread("guest-metrics", self._serve)
                self._thread.start()

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """The guest may have been started just now."""
        self.begin()

    def report(self) -> str:
        """The document of this moment.

        Raises:
            LauncherError: when no guest runs, or libvirt does not tell.
        """
        # Loaded by the launchers that need them.
        from kvedge.launcher.metrics.host_facts import read_host_facts
        from kvedge.launcher.metrics.metrics_report import render_report

        guest = self._session.read_stats(ask_qemu=False)
        if not self._qemu:
            look = self._session.look_closely()
            self._qemu = look.qemu if look is not None else 0
        return render_report(os.environ.get(NODE_VARIABLE, ""), self._qemu, guest, read_host_facts(), self._clock())

    def answer(self) -> bytes:
        """What a guest gets that asks on its port: two newlines end it."""
        from kvedge.launcher.metrics.metric_xml import UNKNOWN

        try:
            text = self.report()
        except LauncherError as error:
            self._tell(str(error))
            text = UNKNOWN
        return f"{text}\n".encode()

    def write(self) -> None:
        """Put the metrics of this moment on the disk, if there is one."""
        from kvedge.launcher.metrics.metrics_image import write_image

        if not os.path.exists(self._image):
            return
        try:
            write_image(self._image, self.report())
            self._refusal = ""
        except (LauncherError, OSError) as error:
            # The guest is just going, or the node's disk is full: the old figures tell by `Time` how old they are.
            self._tell(str(error))

    def _serve(self) -> None:
        from kvedge.launcher.metrics.metrics_channel import MetricsSocket

        channel = MetricsSocket(self._socket_path, self.answer)
        while True:
            until = time.monotonic() + ROUND_SECONDS
            self.write()
            channel.serve(until)

    def _tell(self, why: str) -> None:
        if why != self._refusal:
            self._refusal = why
            log.warning("no metrics for the guest", extra={"facts": {"why": why}})
