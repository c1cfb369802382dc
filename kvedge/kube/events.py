"""Events: what happened to an object, for `kubectl describe` and `kubectl get events`.

Called by every role. Recording never blocks, never fails and never waits for the server: what happened is noted in a
bounded table that one named thread empties; the same thing again only raises a count.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from kvedge.kube.errors import Forbidden, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.kube.watches import KubeObject
from kvedge.resources.meta import ObjectMeta, ObjectReference
from kvedge.resources.types.core import Event, EventSource
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock, SystemClock, rfc3339

log = logging.getLogger(__name__)

# Of an object in its event's name, which has a stamp beside it and 253 characters in all.
_LONGEST_NAME: Final = 230

# Things that wait to be sent; more are dropped, and the log says how many.
_MOST_PENDING: Final = 1000
# Events that are remembered as sent, so that a repeat counts up.
_MOST_REMEMBERED: Final = 500
_LONGEST_MESSAGE: Final = 1024
_CALL_SECONDS: Final = 5.0
# The cause that servers name when a namespace is being deleted.
_ENDING: Final = "NamespaceTerminating"
_STOP_SECONDS: Final = 1.0

EventType = Literal["Normal", "Warning"]


class _What(NamedTuple):
    """What makes two occurrences the same event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str


class _Occurrences(Struct):
    """How often, and between when."""

    count: int
    first: str
    last: str


class _Sent(Struct):
    """The Event that stands for it on the server."""

    name: str
    count: int


class EventRecorder:
    """Records events as one component (and, on a node, one host)."""

    def __init__(self, client: KubeClient, component: str, host: str = "", clock: Clock | None = None) -> None:
        self._client = client.hurry(_CALL_SECONDS)
        self._source = EventSource(component=component, host=host)
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._pending: OrderedDict[_What, _Occurrences] = OrderedDict()
        self._sent: OrderedDict[_What, _Sent] = OrderedDict()
        self._dropped = 0
        self._serial = 0
        self._stopping = False
        self._thread: BackgroundThread | None = None

    def start(self) -> None:
        """Begin to send, events that were recorded before first."""
        if self._thread is None:
            self._thread = BackgroundThread(f"events-{self._source.component}", self._run)
            self._thread.start()

    def stop(self) -> None:
        """Send what is left, for at most a second."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def record(self, resource: KubeObject, type_: EventType, reason: str, message: str) -> None:
        """Note that something happened to `resource`; sent soon, by another thread."""
        kind, meta = resource.KIND, resource.metadata
        text = message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"
        what = _What(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid, type_, reason, text)
        now = rfc3339(self._clock.now())
        with self._changed:
            known = self._pending.get(what)
            if known is not None:
                known.count += 1
                known.last = now
            elif len(self._pending) >= _MOST_PENDING:
                self._dropped += 1
            else:
                self._pending[what] = _Occurrences(1, now, now)
                self._changed.notify()

    def _run(self) -> None:
        while (item := self._await_next()) is not None:
            try:
                self._send(*item)
            except KubeError as error:
                # An event is a courtesy: a namespace that ends, or a server that is away, costs it.
                facts = {"reason": item[0].reason, "object": item[0].name, "error": str(error)}
                level = logging.DEBUG if _has_gone(error) else logging.INFO
                log.log(level, "event not recorded", extra={"facts": facts})

    def _await_next(self) -> tuple[_What, _Occurrences] | None:
        with self._changed:
            while not self._pending:
                if self._stopping:
                    return None
                self._changed.wait()
            if self._dropped:
                log.warning("events dropped", extra={"facts": {"count": self._dropped}})
                self._dropped = 0
            return self._pending.popitem(last=False)

    def _send(self, what: _What, seen: _Occurrences) -> None:
        sent = self._sent.get(what)
        if sent is not None:
            body = {"count": sent.count + seen.count, "lastTimestamp": seen.last}
            try:
                self._client.patch(Event, what.namespace or "default", sent.name, MergePatch(body))
            except NotFound:
                # The server forgets events after an hour.
                del self._sent[what]
            else:
                sent.count += seen.count
                self._sent.move_to_end(what)
                return
        event = self._client.create(self._make_event(what, seen))
        self._sent[what] = _Sent(event.metadata.name, seen.count)
        while len(self._sent) > _MOST_REMEMBERED:
            self._sent.popitem(last=False)

    def _make_event(self, what: _What, seen: _Occurrences) -> Event:
        self._serial += 1
        stamp = int(self._clock.now().timestamp() * 1_000_000) + self._serial
        own = what.name[:_LONGEST_NAME].rstrip("-.")
        involved = ObjectReference(
            api_version=what.api_version, kind=what.kind, namespace=what.namespace, name=what.name, uid=what.uid
        )
        return Event(
            metadata=ObjectMeta(namespace=what.namespace or "default", name=f"{own}.{stamp:x}"),
            involved_object=involved,
            type=what.type,
            reason=what.reason,
            message=what.message,
            source=self._source,
            first_timestamp=seen.first,
            last_timestamp=seen.last,
            count=seen.count,
        )


def _has_gone(error: KubeError) -> bool:
    """Whether there is no place for the event any more, as its object went with its namespace.

    The server then says that creating events is forbidden, which reads like a missing right.
    """
    ending = any(cause.reason == _ENDING for cause in error.causes)
    return isinstance(error, NotFound) or (isinstance(error, Forbidden) and ending)
