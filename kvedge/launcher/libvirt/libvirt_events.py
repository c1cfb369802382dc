"""libvirt's event loop, in a thread of its own, and the events of the one domain.

Part of the door to libvirt; used by `libvirt_session` alone. Events are only a reason to look: the listener
reads the domain's state, so a lost or repeated event does no harm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import libvirt

from kvedge.runtime.background import BackgroundThread

# The events that can change a DomainStatus. Reboots change nothing in it.
_WATCHED: Final = (
    libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE,
    libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,
    # The guest has released a disk, says that it will not, or has opened a drive's tray.
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED,
    libvirt.VIR_DOMAIN_EVENT_ID_TRAY_CHANGE,
    # The guest has taken memory into use, or given it back.
    libvirt.VIR_DOMAIN_EVENT_ID_MEMORY_DEVICE_SIZE_CHANGE,
)

_loop_started = threading.Lock()


def start_event_loop() -> None:
    """Start the loop once per process; it must run before the first connection is opened and never stops."""
    if not _loop_started.acquire(blocking=False):
        return
    libvirt.virEventRegisterDefaultImpl()
    BackgroundThread("libvirt-events", _run).start()


def _run() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def watch_events(connection: Any, on_event: Callable[[], None]) -> None:
    """Call `on_event()` after whatever may have changed a domain's status; it runs in the loop's thread: be quick."""

    def pass_on(*_facts: object) -> None:
        on_event()

    for event in _WATCHED:
        connection.domainEventRegisterAny(None, event, pass_on, None)
