"""One active instance of a role per cluster, by a Lease.

Used by the controller (and by any other role that must be alone). `kubernetes.leaderelection` was weighed and left: it
leaves the process by sys.exit, cannot be stopped, counts on the wall clock, only talks through the typed API with a
global configuration, and has no deadline on its calls, so that a leader whose server hangs goes on after its lease has
ended.

Losing the lease stops the role, and one that slept through the end of its lease (a process that was stopped, a machine
that was suspended) finds :meth:`LeaderElection.holds` false before it writes anything. Still nothing that must never
happen twice rests on this alone: writes name the version they were decided on, and a launcher Pod's name follows from
its VMI.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Final

from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.told_refusals import ToldRefusals
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.cluster import Lease, LeaseSpec
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock, SystemClock, rfc3339_micro

log = logging.getLogger(__name__)

# Others take over after the first, the holder gives up after the second, tries are this far apart. KubeVirt has 15, 10
# and 2; here another works within 15 s although it may have seen the last renewal one try late.
LEASE_SECONDS: Final = 12
RENEW_SECONDS: Final = 8.0
RETRY_SECONDS: Final = 2.0
# A process that stands by only reads.
_LOOK_SECONDS: Final = 1.0
_SHORTEST_PAUSE: Final = 0.2
# A call that begins just before the holder must give up has to end before the lease does.
_CALL_SECONDS: Final = 2.0


class LeaderElection:
    """Takes a Lease, keeps it, and says when it is ours and when it no longer is."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        on_started: Callable[[], None],
        on_lost: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self._client = client.hurry(_CALL_SECONDS)
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._on_started = on_started
        self._on_lost = on_lost
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._leading = False
        self._renewed_at = 0.0
        # The lease as last seen, and when it last changed: another's clock is not to be trusted.
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0
        self._told = ToldRefusals()
        self._thread: BackgroundThread | None = None

    @property
    def is_leader(self) -> bool:
        """Whether the lease is ours."""
        return self._leading

    def holds(self) -> bool:
        """Whether the lease was renewed so lately that nobody else can have it: to be asked before each write."""
        return self._leading and self._clock.monotonic() - self._renewed_at < RENEW_SECONDS

    def start(self) -> None:
        """Begin to campaign, in a thread of its own; `on_started` and `on_lost` are called from it."""
        if self._thread is None:
            self._thread = BackgroundThread(f"lease-{self._name}", self._run)
            self._thread.start()

    def stop(self) -> None:
        """End the role (`on_lost`) and give the lease back, so that another need not wait."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * _CALL_SECONDS + 1)

    def failure(self) -> str | None:
        """Why nobody campaigns any more, or None."""
        return None if self._thread is None or self._stop.is_set() else self._thread.failure()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self._thread is not None:
                    self._thread.heartbeat.beat()
                self.step()
                self._stop.wait(self._pause())
        finally:
            if self._leading:
                self._lose("stopping")
                self._release()

    def step(self) -> None:
        """One try: take, renew or look at the lease."""
        begun = self._clock.monotonic()
        try:
            renewed = self._take_or_renew()
            self._told.clear()
        except KubeError as error:
            renewed = False
            if self._told.is_news(error):
                facts = {"lease": self._name, "error": str(error)}
                log.warning("lease not renewed", extra={"facts": facts})
        now = self._clock.monotonic()
        if renewed:
            # The others count from the write, which was after this.
            self._renewed_at = begun
            if not self._leading:
                self._leading = True
                log.info("leading", extra={"facts": {"lease": self._name, "identity": self._identity}})
                self._on_started()
        elif self._leading and (self._is_held_by_another() or now - self._renewed_at >= RENEW_SECONDS):
            self._lose("lease lost")

    def _take_or_renew(self) -> bool:
        try:
            lease = self._client.get(Lease, self._namespace, self._name)
        except NotFound:
            return self._write(self._client.create, Lease(metadata=self._meta(), spec=self._spec(None)))
        now = self._clock.monotonic()
        if lease.spec != self._seen:
            self._seen, self._seen_at = lease.spec, now
        if not self._is_free(lease.spec, now):
            return False
        lease.spec = self._spec(lease.spec)
        return self._write(self._client.replace, lease)

    def _write(self, write: Callable[[Lease], Lease], lease: Lease) -> bool:
        try:
            self._seen = write(lease).spec
        except (AlreadyExists, Conflict):
            return False
        self._seen_at = self._clock.monotonic()
        return True

    def _pause(self) -> float:
        """Until the next try: at the end of another's lease, if that is sooner."""
        jitter = 1 + 0.2 * random.random()
        if self._seen is None or not self._is_held_by_another():
            return RETRY_SECONDS * jitter
        left = self._ends_at(self._seen) - self._clock.monotonic()
        return max(_SHORTEST_PAUSE, min(_LOOK_SECONDS * jitter, left))

    def _ends_at(self, spec: LeaseSpec) -> float:
        return self._seen_at + (spec.lease_duration_seconds or LEASE_SECONDS)

    def _is_free(self, spec: LeaseSpec, now: float) -> bool:
        return spec.holder_identity in ("", self._identity) or now >= self._ends_at(spec)

    def _is_held_by_another(self) -> bool:
        return self._seen is not None and self._seen.holder_identity not in ("", self._identity)

    def _meta(self) -> ObjectMeta:
        return ObjectMeta(namespace=self._namespace, name=self._name)

    def _spec(self, old: LeaseSpec | None) -> LeaseSpec:
        now = rfc3339_micro(self._clock.now())
        same = old is not None and old.holder_identity == self._identity
        transitions = 0 if old is None else (old.lease_transitions or 0)
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=LEASE_SECONDS,
            acquire_time=old.acquire_time if old is not None and same else now,
            renew_time=now,
            lease_transitions=transitions if old is None or same else transitions + 1,
        )

    def _lose(self, why: str) -> None:
        self._leading = False
        log.info("no longer leading", extra={"facts": {"lease": self._name, "why": why}})
        self._on_lost()

    def _release(self) -> None:
        try:
            lease = self._client.get(Lease, self._namespace, self._name)
            if lease.spec.holder_identity == self._identity:
                lease.spec.holder_identity = ""
                lease.spec.lease_duration_seconds = 1
                self._client.replace(lease)
        except KubeError as error:
            # It runs out by itself.
            log.info("lease not given back", extra={"facts": {"lease": self._name, "error": str(error)}})
