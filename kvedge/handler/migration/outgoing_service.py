"""The ways of guests that leave this node, as a service of the handler: an event loop, and a certificate for it.

Used by handler_service.py; the source's steps open and close ways from worker threads. The loop begins, and a
certificate is asked for and kept fresh, when the first guest is to leave: a node whose guests never leave, as the one
of one box, pays for neither.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import ssl
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from kvedge.handler.launchers.launcher_socket import NotThere, Unexpected
from kvedge.handler.launchers.relay_certificate import RelayCertificate
from kvedge.handler.migration.outgoing_channels import LeavingGuest, OutgoingChannels
from kvedge.handler.pod_errors import PodNotReady
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.told_refusals import ToldRefusals
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock, SystemClock
from kvedge.runtime.serving.loop_thread import LoopThread, Serving
from kvedge.runtime.tls.certificates import MIGRATION_NAME, CertificateError, TlsMaterial
from kvedge.runtime.tls.tls_contexts import client_context

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_ROUND_SECONDS: Final = 60.0
# To make some sockets, or to close them with what goes through.
_CALL_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0


class OutgoingService:
    """All guests that leave this node."""

    name = "leaving guests"

    def __init__(self, client: KubeClient, node: str, kubelet: Path, clock: Clock | None = None) -> None:
        self._stopping = threading.Event()
        self._refreshing = threading.Lock()
        # Held while it begins or ends.
        self._lock = threading.Lock()
        self._begun = False
        self._certificate = RelayCertificate(client, node, clock or SystemClock(), self._stopping, MIGRATION_NAME)
        self._material: TlsMaterial | None = None
        self._context: ssl.SSLContext | None = None
        self._channels = OutgoingChannels(kubelet, self._current_context)
        self._loop = LoopThread("handler-leaving", "the event loop of the leaving guests")
        self._renewal = BackgroundThread("handler-leaving-certificate", self._renew)

    def start(self) -> None:
        """Nothing begins before the first guest is to leave."""

    def stop(self) -> None:
        """Close all ways: libvirt then lets guests go on where they are."""
        with self._lock:
            self._stopping.set()
        self._renewal.join(_STOP_SECONDS)
        if not self._loop.stop(_STOP_SECONDS):
            log.warning("the ways of leaving guests are left open")

    def failure(self) -> str | None:
        """Why no guest can leave any more, or None."""
        return (self._loop.failure() or self._renewal.failure()) if self._begun else None

    def open(self, uid: str, guest: LeavingGuest) -> None:
        """Open the way of the migration of this UID; one that is open already stays so.

        Raises:
            PodNotReady: when it cannot be opened yet, with the reason.
        """
        self._begin_service()
        if self._context is None:
            raise PodNotReady("this node's handler has no certificate yet to call the other node with")
        try:
            begun = self._begin(self._channels.open(uid, guest))
            if begun is None:
                raise PodNotReady("this node's handler is going down")
            begun.result(_CALL_SECONDS)
        except (NotThere, Unexpected, OSError, TimeoutError, concurrent.futures.CancelledError) as error:
            raise PodNotReady(f"no way to the other node can be opened: {error}") from error

    def close(self, uid: str) -> None:
        """Close the way of this migration, if it is open."""
        self._begin(self._channels.close(uid))

    def begin(self, work: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None] | None:
        """Begin work in the event loop; None, and nothing is begun, where there is none.

        Raises:
            PodNotReady: when no event loop is to be had.
        """
        try:
            self._begin_service()
        except PodNotReady:
            work.close()
            raise
        return self._begin(work)

    def _begin_service(self) -> None:
        """Start the threads, unless they run.

        Raises:
            PodNotReady: when there is no event loop to be had.
        """
        with self._lock:
            if self._begun or self._stopping.is_set():
                return
            try:
                self._loop.start(self._serve)
            except OSError as error:
                self._loop.stop(_STOP_SECONDS)
                raise PodNotReady(f"no way to the other node can be opened: {error}") from error
            self._renewal.start()
            # Only now may anybody ask how they are.
            self._begun = True

    def _begin(self, work: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None] | None:
        """Begin it in the event loop; None when that has ended, and all ways with it."""
        loop = self._loop.loop
        try:
            if loop is not None and not self._stopping.is_set():
                return asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:
            log.debug("the event loop has just ended")
        work.close()
        return None

    def _current_context(self) -> ssl.SSLContext:
        if self._context is None:
            raise OSError("there is no certificate")
        return self._context

    async def _serve(self, until_stop: Serving) -> None:
        try:
            await until_stop()
        finally:
            await self._channels.close_all()

    def _renew(self) -> None:
        pause, told = 0.0, ToldRefusals()
        while not self._stopping.wait(pause):
            self._renewal.heartbeat.beat()
            try:
                self.refresh()
                told.clear()
                pause = _ROUND_SECONDS
            except (KubeError, CertificateError) as error:
                if told.is_news(error):
                    log.info("no fresh certificate to send guests with", extra={"facts": {"reason": str(error)}})
                pause = _RETRY_SECONDS

    def refresh(self) -> None:
        """Have a certificate and a trust that are fresh; the service's thread does it every minute.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when nobody signs, or what came cannot be used.
        """
        with self._refreshing:
            material = self._certificate.keep_fresh(self._material)
            if material is not self._material:
                self._context = client_context(material)
                self._material = material
