"""Events as their readers see them: of all objects of a namespace, or of one VM with all that belongs to it.

Called by `kvedge events`. Lists and watches; the functions that choose and render are pure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator
from datetime import datetime
from typing import Final

from kvedge.client.harmless_text import harmless
from kvedge.client.session import Session
from kvedge.kube.errors import Gone, KubeError, Unavailable
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.names import LAUNCHER_APP
from kvedge.resources.types.core import Event
from kvedge.runtime.clock import seconds_since

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
# A watch that lasted so long was served; what ends it is no new trouble.
_SETTLED_SECONDS: Final = 20.0
# Objects of a VM's name: what belongs to a VM is mostly called as it is.
_OF_ITS_NAME: Final = frozenset({"VirtualMachine", "VirtualMachineInstance"})
_SUFFIX: Final = re.compile(r"[a-z2-7]{5}")
_LONGEST_LABEL: Final = 63


def is_of_vm(event: Event, vm: str) -> bool:
    """Whether an event is of a VM, of its run, or of a launcher Pod of it."""
    about = event.involved_object
    if about.kind in _OF_ITS_NAME:
        return about.name == vm
    if about.kind != "Pod" or not about.name.startswith(f"{LAUNCHER_APP}-"):
        return False
    name, _, suffix = about.name.removeprefix(f"{LAUNCHER_APP}-").rpartition("-")
    # A long name is cut for the Pod's.
    is_cut = len(about.name) == _LONGEST_LABEL and name and vm.startswith(name)
    return _SUFFIX.fullmatch(suffix) is not None and (name == vm or bool(is_cut))


def time_of(event: Event) -> str:
    """When it happened last."""
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or ""


def is_recent(event: Event, now: datetime, seconds: float | None) -> bool:
    """Whether it happened within so many seconds; an event without a time always did."""
    since = seconds_since(time_of(event), now)
    return seconds is None or since is None or since <= seconds


def event_line(event: Event, *, with_namespace: bool = False) -> str:
    """One line: when, what kind, about what, and what; messages may quote what a guest said."""
    about = event.involved_object
    place = f"{about.namespace}/" if with_namespace and about.namespace else ""
    count = f" (x{event.count})" if event.count > 1 else ""
    text = (
        f"{time_of(event)}  {event.type:<7}  {event.reason}  {about.kind} {place}{about.name}: {event.message}{count}"
    )
    return harmless(" ".join(text.split("\n")).encode())


def event_document(event: Event) -> JsonObject:
    """The event as JSON, on one line."""
    return encode(event)


def follow_events(
    session: Session, namespace: str | None, *, follow: bool, pause: Callable[[float], None] = time.sleep
) -> Generator[Event, None, None]:
    """The events there are, oldest first, and with `follow` those that come, until the caller has enough.

    A server that goes away is waited for; what came meanwhile is told then, and nothing twice.

    Raises:
        KubeError: when the server refuses.
    """
    told = _Told()
    wait = _FIRST_PAUSE
    while True:
        begun = time.monotonic()
        try:
            listing = session.client.listing(Event, namespace)
            yield from (each for each in sorted(listing.items, key=time_of) if told.is_news(each))
            told.forget_all_but({event.metadata.uid for event in listing.items})
            if not follow:
                return
            yield from _watch(session, namespace, listing.resource_version, told)
        except Gone:
            continue
        except KubeError as error:
            # One with a status is the server's word; without one a watch broke off.
            if not follow or (error.status and not isinstance(error, Unavailable)):
                raise
        wait = _FIRST_PAUSE if time.monotonic() - begun > _SETTLED_SECONDS else min(_LONGEST_PAUSE, wait * 2)
        pause(wait)


def _watch(session: Session, namespace: str | None, version: str, told: _Told) -> Generator[Event, None, None]:
    """What comes, until the server ends the watch."""
    for change in session.client.watch(Event, version, namespace):
        event = change.object
        if change.type != "DELETED" and isinstance(event, Event) and told.is_news(event):
            yield event


class _Told:
    """Which events were told, by how often each had happened then."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def is_news(self, event: Event) -> bool:
        """Whether it was not told like this; it counts as told from now on."""
        uid = event.metadata.uid
        if self._counts.get(uid) == event.count:
            return False
        self._counts[uid] = event.count
        return True

    def forget_all_but(self, uids: set[str]) -> None:
        """The server forgets events after an hour, and so do we."""
        self._counts = {uid: count for uid, count in self._counts.items() if uid in uids}
