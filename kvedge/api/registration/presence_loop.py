"""Keeps one api role among the endpoints of their Service, and those that are gone out of them.

Started by api_service.py, in a thread of its own: an own slice that is missing and others' that have fallen silent are
noticed within seconds, as calls fail for that long. Level-triggered: each round reads all slices, then asks the plan.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Final

from kvedge.api.registration.document import Document
from kvedge.api.registration.presence_plan import heartbeat_of, name_of, other_slices, plan_presence, serves
from kvedge.api.registration.registration_manifest import Endpoint, endpoint_slice, endpoints, slices_selector
from kvedge.api.registration.registration_plan import plan_write
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.runtime.clock import Clock, SystemClock, rfc3339_micro
from kvedge.runtime.heartbeat_book import HeartbeatBook
from kvedge.runtime.rounds import Rounds

log = logging.getLogger(__name__)

BEAT_SECONDS: Final = 5.0
# A role whose own rounds fail for so long cannot tell whether others were silent.
_BLIND_SECONDS: Final = 3 * BEAT_SECONDS
# For an answer. The next round asks again; and a host that shuts down does not wait for an API server that went before.
_CALL_SECONDS: Final = 5.0


class Presence:
    """One api role's place among the endpoints; safe for any number of threads."""

    def __init__(self, client: KubeClient, endpoint: Endpoint, clock: Clock | None = None) -> None:
        self._client = client.hurry(_CALL_SECONDS)
        self._own = endpoint_slice(endpoint)
        self._clock = clock or SystemClock()
        self._book = HeartbeatBook()
        self._heard = 0.0
        self._lock = threading.Lock()
        self._appears = False
        # What went wrong at the last look: told once.
        self._told = ""
        self._rounds = Rounds(
            "api-presence", "keeps the role among the endpoints", BEAT_SECONDS, self._look, stop_seconds=None
        )

    def start(self) -> None:
        """Begin to look after it."""
        self._rounds.start()

    def stop(self) -> None:
        """End the thread; what is written stays."""
        self._rounds.stop()

    def failure(self) -> str | None:
        """Why it no longer works, or None while it does."""
        return self._rounds.failure()

    def appear(self) -> list[JsonObject]:
        """Be an endpoint, now and in each round; returns the slices of all, ourselves left out.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        with self._lock:
            self._appears = True
            return self._pass_once()

    def stay_away(self) -> None:
        """Write nothing any more: the cluster finds the endpoints by itself."""
        with self._lock:
            self._appears = False

    def withdraw(self) -> bool:
        """Be no endpoint any more, if others are; whether calls go to others now.

        Alone we stay in: a role that comes back is found at once, and calls fail either way.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        with self._lock:
            if not self._appears:
                return False
            self._appears = False
            others = other_slices(self._own.body, self._slices())
            if not any(serves(item) for item in others):
                return False
            with contextlib.suppress(NotFound):
                self._client.request("DELETE", self._own.path)
            self._tell(others)
            return True

    def _look(self) -> None:
        try:
            with self._lock:
                if self._appears:
                    self._pass_once()
        except Conflict:
            # Another role was faster; what it wrote is seen in the next round.
            return
        except KubeError as error:
            # An API server can be away for hours.
            if str(error) != self._told:
                self._told = str(error)
                log.warning("endpoint not looked after", extra={"facts": {"reason": self._told}})
            return
        if self._told:
            self._told = ""
            log.info("endpoint looked after again")

    def _pass_once(self) -> list[JsonObject]:
        slices = self._slices()
        now = self._clock.monotonic()
        if now - self._heard > _BLIND_SECONDS:
            self._book.note_blindness(now)
        for item in slices:
            self._book.note(name_of(item), heartbeat_of(item), now)
        plan = plan_presence(
            self._own.body, slices, lambda name: self._book.silent_seconds(name, now), rfc3339_micro(self._clock.now())
        )
        if plan.own is not None:
            self._write(self._own, plan.own)
        others = [*plan.others, *(item for item in plan.gone if not self._remove(item))]
        self._tell([self._own.body, *others])
        self._heard = now
        return others

    def _remove(self, item: JsonObject) -> bool:
        """Take one out, unless it has said something since we have read it."""
        options = {"preconditions": {"resourceVersion": item["metadata"]["resourceVersion"]}}
        try:
            self._client.request("DELETE", f"{self._own.collection}/{name_of(item)}", options)
        except Conflict:
            return False
        except NotFound:
            return True
        self._book.forget(name_of(item))
        log.warning("an api role says nothing any more, and gets no calls", extra={"facts": {"slice": name_of(item)}})
        return True

    def _tell(self, slices: list[JsonObject]) -> None:
        """The same in core/v1 Endpoints."""
        wanted = endpoints([item for item in slices if serves(item)])
        try:
            there: JsonObject | None = self._client.request("GET", wanted.path)
        except NotFound:
            there = None
        planned = plan_write(wanted.body, there)
        if planned is not None:
            self._write(wanted, planned)

    def _write(self, document: Document, planned: JsonObject) -> None:
        if planned["metadata"].get("resourceVersion"):
            self._client.request("PUT", document.path, planned)
            return
        log.info("registered", extra={"facts": {"kind": document.body["kind"], "name": document.name}})
        # Where somebody was faster, the next round compares.
        with contextlib.suppress(AlreadyExists):
            self._client.request("POST", document.collection, planned)

    def _slices(self) -> list[JsonObject]:
        found = self._client.request("GET", self._own.collection, query={"labelSelector": slices_selector()})
        return list(found.get("items") or ())
