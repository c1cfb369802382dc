"""A local copy of all objects of a kind, kept up to date by a watch.

Used by every loop of controller, handler, api and node agent. One named thread per informer lists, then watches from
that version on; it resumes where a watch ended, lists again when the version is too old (410), and backs off with
jitter while the server is away. Callbacks run in that thread (or in the one that calls :meth:`Informer.observe`), one
at a time, and only note work: they must not block.

`kubernetes.informer` was weighed and left: it reconnects without any pause when a watch fails at once, cannot say
which object was there before, has no place for the answer of an own write, builds a dictionary per object first, and
replaces its cache in several steps. Its Watch adds a decoding and a re-encoding of every object. So this stands on the
package's REST layer (see :mod:`kvedge.kube.rest_edge`), and objects go from bytes into their types once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic

from msgspec import Struct, field

from kvedge.kube.errors import KubeError, NotFound, Unauthenticated, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.object_cache import ObjectCache, version_number
from kvedge.kube.watches import T, Unreadable, Watch, WatchEvent
from kvedge.runtime.background import BackgroundThread, Pauses, tell_trouble

log = logging.getLogger(__name__)

Callback = Callable[[T | None, T | None], None]

_FIRST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 30.0
# A watch that lasted this long did work, whatever ended it.
_SETTLED_SECONDS: Final = 10.0
# The server ends a watch after a time in this range, so that not all of them come back at once.
_WATCH_SECONDS: Final = (240, 360)
_STOP_SECONDS: Final = 1.0


class _Missed(Struct, Generic[T]):
    """What a listener last knew of an object when it failed, and when it is told again."""

    old: T | None
    due: float = 0.0
    pauses: Pauses = field(default_factory=Pauses)


class Informer(Generic[T]):
    """All objects of one kind, of one namespace or of all, as the server last told of them."""

    def __init__(
        self,
        client: KubeClient,
        cls: type[T],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        self._client = client
        self._cls = cls
        self._namespace = namespace
        self._selectors = (label_selector, field_selector)
        self._cache: ObjectCache[T] = ObjectCache()
        # Held while a change is made and told, so that callbacks see changes one after the other.
        self._telling = threading.RLock()
        self._callbacks: list[Callback[T]] = []
        # By the number of the callback, namespace and name: what a callback failed at. One object is there once.
        self._missed: dict[tuple[int, str, str], _Missed[T]] = {}
        self._synced = threading.Event()
        self._stop = threading.Event()
        self._watch: Watch[T] | None = None
        self._watch_lock = threading.Lock()
        self._last_contact = time.monotonic()
        self._thread: BackgroundThread | None = None
        self._version = ""
        self._trouble = ""

    def start(self) -> None:
        """Begin to list and watch; a second call does nothing."""
        if self._thread is None:
            self._thread = BackgroundThread(f"informer-{self._cls.KIND.plural}", self._run)
            self._thread.start()

    def stop(self) -> None:
        """End the watch and the thread, within a second."""
        self._stop.set()
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
        if self._thread is not None:
            # A thread that waits for a silent server's first byte is a daemon and ends by its own deadline.
            self._thread.join(_STOP_SECONDS)

    def wait_synced(self, timeout: float) -> bool:
        """Whether everything was listed once, within `timeout` seconds."""
        return self._synced.wait(timeout)

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name, or None; `namespace` is empty for a cluster-scoped kind."""
        return self._cache.get(namespace, name)

    def list(self) -> Sequence[T]:
        """All objects, in no order."""
        return self._cache.list()

    def find_owned_by(self, uid: str) -> Sequence[T]:
        """The objects whose controller reference has that UID."""
        return self._cache.find_indexed("owner", uid)

    def find_indexed(self, index: str, value: str) -> Sequence[T]:
        """The objects that the index of that name (see :meth:`add_index`) has under `value`."""
        return self._cache.find_indexed(index, value)

    def add_index(self, index: str, values: Callable[[T], Iterable[str]]) -> None:
        """Find objects by what `values` says of each; call it before :meth:`start`."""
        self._cache.add_index(index, values)

    def on_change(self, callback: Callback[T]) -> None:
        """Call `callback(old, new)` for each change; old is None for a new object, new for one that is gone.

        Never are both None, and never do both have different UIDs: one ends before the next of its name begins.
        Objects that are known already are told at once.
        """
        with self._telling:
            self._callbacks.append(callback)
            for item in self._cache.list():
                callback(None, item)

    def observe(self, item: T) -> None:
        """Take the answer of an own write in, when it is newer than what the watch has told so far."""
        with self._telling:
            known = self._cache.get(item.metadata.namespace, item.metadata.name)
            if self._cache.take_own(item):
                self._tell(known, item)

    @property
    def version(self) -> int:
        """Up to which version of all objects the server has told; 0 before everything was listed once."""
        return self._cache.version

    def silent_seconds(self) -> float:
        """Since when the server has not answered; a watch's bookmarks keep it below two minutes."""
        return time.monotonic() - self._last_contact

    @property
    def trouble(self) -> str:
        """What the server said last when it did not list; empty when it did."""
        return self._trouble

    def failure(self) -> str | None:
        """Why this informer no longer works, or None."""
        return None if self._thread is None or self._stop.is_set() else self._thread.failure()

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not self._stop.is_set():
            begun = time.monotonic()
            self._tell_again()
            try:
                if not self._version:
                    self._relist()
                self._follow()
                # The usual end: the server's time limit.
                failed = time.monotonic() - begun < _FIRST_WAIT
            except KubeError as error:
                failed = True
                # These errors last until somebody mends their cause: the log says each of them once.
                is_told = isinstance(error, Unauthenticated | NotFound) and str(error) == self._trouble
                self._trouble = str(error)
                if _must_list_again(error):
                    self._version = ""
                if not (is_told or self._stop.is_set()):
                    self._log(error)
            if not failed or time.monotonic() - begun > _SETTLED_SECONDS:
                wait = _FIRST_WAIT
                continue
            self._stop.wait(wait * (0.5 + random.random()))
            wait = min(_LONGEST_WAIT, wait * 2)

    def _relist(self) -> None:
        self._cache.forget_own_writes()
        listing = self._client.listing(self._cls, self._namespace, *self._selectors)
        for unreadable in listing.unreadable:
            self._report(unreadable)
        with self._telling:
            for old, new in self._cache.replace(listing.items, version_number(listing.resource_version)):
                self._tell(old, new)
        self._version = listing.resource_version
        self._last_contact = time.monotonic()
        self._trouble = ""
        self._synced.set()

    def _follow(self) -> None:
        seconds = random.randint(*_WATCH_SECONDS)
        watch = self._client.watch(self._cls, self._version, self._namespace, *self._selectors, seconds=seconds)
        with self._watch_lock:
            self._watch = watch
        if self._stop.is_set():
            watch.close()
        self._trouble = ""
        self._last_contact = time.monotonic()
        for event in watch:
            self._last_contact = time.monotonic()
            self._take(event)
            self._version = event.resource_version or self._version
            self._tell_again()

    def _take(self, event: WatchEvent[T]) -> None:
        if event.object is None:
            self._cache.note_reached(version_number(event.resource_version))
            return
        if isinstance(event.object, Unreadable):
            self._report(event.object)
            return
        with self._telling:
            change = self._cache.take(event.object, gone=event.type == "DELETED")
            if change is not None:
                self._tell(*change)

    def _tell(self, old: T | None, new: T | None) -> None:
        """Tell all listeners. A listener that fails is told again later, and keeps no other from hearing of it."""
        item = new or old
        assert item is not None
        name = (item.metadata.namespace, item.metadata.name)
        for number, callback in enumerate(self._callbacks):
            missed = self._missed.pop((number, *name), None)
            self._call(number, callback, name, missed or _Missed(old), new)

    def _tell_again(self) -> None:
        """Tell the listeners that failed what there is now; comes after each event and each minute's bookmark."""
        now = time.monotonic()
        with self._telling:
            for (number, *name), missed in [entry for entry in self._missed.items() if entry[1].due <= now]:
                del self._missed[number, name[0], name[1]]
                new = self._cache.get(name[0], name[1])
                self._call(number, self._callbacks[number], (name[0], name[1]), missed, new)

    def _call(
        self, number: int, callback: Callback[T], name: tuple[str, str], missed: _Missed[T], new: T | None
    ) -> None:
        missed.pauses.begin()
        for old, now in _changes(missed.old, new):
            try:
                callback(old, now)
            except Exception as error:  # noqa: BLE001 - told, and tried again
                tell_trouble(f"a listener to {self._cls.KIND.plural}", error)
                missed.due = time.monotonic() + missed.pauses.count_failure()
                self._missed[number, *name] = missed
                return
            missed.old = now

    def _log(self, error: KubeError) -> None:
        facts = {"kind": self._cls.KIND.plural, "error": str(error)}
        if isinstance(error, NotFound) and not self._synced.is_set():
            # The role that brings the kinds may start after this one.
            log.info("kind not served yet", extra={"facts": facts})
            return
        log.warning("watch interrupted", extra={"facts": facts})

    def _report(self, item: Unreadable) -> None:
        facts = {"kind": self._cls.KIND.plural, "object": f"{item.namespace}/{item.name}", "detail": item.detail}
        log.error("an object does not fit its type and is left alone", extra={"facts": facts})


def _changes(old: T | None, new: T | None) -> Iterator[tuple[T | None, T | None]]:
    """What a listener is told that knows `old`, where there is `new` now.

    Nothing when it never heard of an object that is gone again; and of another object of the same name it hears only
    after the end of the one that it knows.
    """
    if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
        yield old, None
        yield None, new
    elif old is not None or new is not None:
        yield old, new


def _must_list_again(error: KubeError) -> bool:
    """Whether the version cannot be watched from: too old, or newer than a server that was restored has ever seen.

    A server that is away or overloaded says neither, and listing would only add to its load; nor does a server that
    does not know our credentials.
    """
    if isinstance(error, Unavailable):
        return error.status == 504
    return not isinstance(error, Unauthenticated)
