"""What systemd is told: ready, alive, what we are doing, stopping.

Called by the service runner. Without NOTIFY_SOCKET every call does nothing. The variable is taken out of the
environment: what we start must not speak for us.
"""

from __future__ import annotations

import os

import sdnotify


class Notifier:
    """systemd's notify protocol (sd_notify(3))."""

    def __init__(self) -> None:
        self._socket = sdnotify.SystemdNotifier() if os.environ.get("NOTIFY_SOCKET") else None
        os.environ.pop("NOTIFY_SOCKET", None)

    def ready(self) -> None:
        """All services serve."""
        self._tell("READY=1")

    def alive(self) -> None:
        """The watchdog's ping."""
        self._tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        """The status line."""
        self._tell(f"STATUS={text}")

    def stopping(self) -> None:
        """We are going down on purpose."""
        self._tell("STOPPING=1")

    def _tell(self, line: str) -> None:
        if self._socket is not None:
            self._socket.notify(line)
