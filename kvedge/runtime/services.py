"""A process is a list of services, which start in this order; this runs them until a signal comes or one fails.

They are the parts of one `Parts`: a service that cannot start or fails ends the process with its name and cause, and
they stop in reverse order. Called by the subcommands of the long-running roles. Touches signals and systemd's notify
socket.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol, runtime_checkable

from kvedge.runtime.last_exit import LastExit
from kvedge.runtime.notify import Notifier
from kvedge.runtime.process_memory import give_back
from kvedge.runtime.role import Part, Parts

log = logging.getLogger(__name__)

_STANDARD_ERROR: Final = 2


class Service(Protocol):
    """Something that is started, serves until it is stopped, and may fail."""

    @property
    def name(self) -> str:
        """What the logs and systemd's status line call it."""

    def start(self) -> None:
        """Return when it serves; raise when it cannot."""

    def stop(self) -> None:
        """Return when nothing of it runs any more; never raises for a service that was not started."""

    def failure(self) -> str | None:
        """Why it no longer serves, or None while it does; asked for each second and for systemd's watchdog."""


@runtime_checkable
class Telling(Protocol):
    """A service that has something for systemd's status line."""

    def summary(self) -> str:
        """What it is doing right now, in a few words; empty for nothing."""


class ServiceError(Exception):
    """A service could not start or failed; `service` is its name and `detail` the cause in words for the user."""

    def __init__(self, service: str, detail: str) -> None:
        super().__init__(f"{service}: {detail}")
        self.service = service
        self.detail = detail


class NotYetError(ServiceError):
    """A service cannot start at present, for a reason that may pass without anybody touching this host."""


class ServiceRunner:
    """Starts services in order, watches them, stops them in reverse."""

    # Often enough that a dead service is noticed before a user notices.
    POLL_SECONDS = 1.0
    # Between two tries of a service that waits for something.
    RETRY_SECONDS = 5.0

    def __init__(
        self, services: Sequence[Service], notifier: Notifier | None = None, exit_seconds: float | None = None
    ) -> None:
        """With `exit_seconds` the process ends so long after the request to stop, whatever hangs."""
        # Found out once: to ask a protocol costs much, and this is asked for each second.
        self._telling = [service for service in services if isinstance(service, Telling)]
        self._notifier = notifier or Notifier()
        self._parts = Parts(self._part(service) for service in services)
        self._stop = threading.Event()
        self._status = ""
        self._is_stopping = False
        self._last_exit = None if exit_seconds is None else LastExit(self._stop, exit_seconds)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT.

        Raises:
            ServiceError: when a service could not start or failed; what was started is stopped before.
        """
        # A crash beneath Python says where, on standard error, before it ends the process.
        faulthandler.enable(_STANDARD_ERROR)
        if self._last_exit is not None:
            self._last_exit.start()
        previous = [(number, signal.signal(number, self._on_signal)) for number in (signal.SIGTERM, signal.SIGINT)]
        try:
            self.start()
            give_back()
            self._watch()
        finally:
            self.stop()
            for number, handler in previous:
                signal.signal(number, handler)

    def start(self) -> None:
        """Start all, then tell systemd once that the program is ready."""
        self._parts.start(self._stop.is_set)
        if self._stop.is_set():
            return
        self._notifier.ready()
        self._tell_status()

    def _part(self, service: Service) -> Part:
        return Part(service.name, partial(self._start_one, service), partial(self._stop_one, service), service.failure)

    def _start_one(self, service: Service) -> None:
        self._notifier.status(f"starting {service.name}")
        begun = time.monotonic()
        try:
            self._start_patiently(service)
        except BaseException:
            # The services that have started are stopped next, which the last exit must bound, too.
            self._tell_stopping()
            raise
        log.info("started", extra={"facts": {"service": service.name, "seconds": round(time.monotonic() - begun, 3)}})

    def _start_patiently(self, service: Service) -> None:
        told = ""
        while not self._stop.is_set():
            try:
                service.start()
                return
            except NotYetError as error:
                if error.detail != told:
                    told = error.detail
                    log.warning("waiting", extra={"facts": {"service": error.service, "reason": told}})
                self._notifier.status(f"{error.service} waits: {error.detail}")
                self._stop.wait(self.RETRY_SECONDS)

    def stop(self) -> None:
        """Stop the started services, last first; a failure does not keep the others from stopping."""
        self._tell_stopping()
        self._parts.stop()
        self._note_work("")

    def _tell_stopping(self) -> None:
        self._stop.set()
        if not self._is_stopping:
            self._is_stopping = True
            self._notifier.stopping()

    def _stop_one(self, service: Service) -> None:
        self._note_work(service.name)
        service.stop()

    def _note_work(self, name: str) -> None:
        if self._last_exit is not None:
            self._last_exit.busy_with = name

    def _watch(self) -> None:
        while not self._stop.wait(self.POLL_SECONDS):
            failure = self._parts.first_failure()
            if failure is not None:
                raise ServiceError(failure.part, failure.detail)
            self._notifier.alive()
            self._tell_status()

    def _tell_status(self) -> None:
        told = [service.summary() for service in self._telling]
        text = "; ".join(["serving", *(part for part in told if part)])
        if text != self._status:
            self._status = text
            self._notifier.status(text)

    def _on_signal(self, number: int, frame: object) -> None:
        # First: a pipe that takes nothing holds the write for ever, and the last exit waits for the request.
        self._stop.set()
        with contextlib.suppress(OSError):
            os.write(2, f"kvedge: {signal.Signals(number).name}, stopping\n".encode())
