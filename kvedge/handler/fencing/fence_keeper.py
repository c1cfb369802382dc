"""Keeps the promise of this node: renews its lease, and ends what it promised when that fails for too long.

Run by the fence service in two threads: one calls `look`, and waits for nobody; the other one calls `renew`, and waits
for the server. Decisions are in `fence_plan`; the proof is in `resources/node_loss/fence_terms`.

The order of steps is part of that proof. What the lease will promise is in the record first, and the watchdog armed.
What the lease no longer promises leaves the record after the server has said so. A renewal counts when it is in the
record. A handler that starts anew looks before it opens the watchdog.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.handler.fencing.fence_plan import (
    Order,
    Promise,
    after_boot,
    choose_promised,
    narrow,
    next_lease,
    plan_look,
    refuse_start,
    widen,
)
from kvedge.handler.fencing.lease_door import LeaseDoor
from kvedge.handler.fencing.node_guests import Wish, Wishes
from kvedge.handler.fencing.promise_record import PromiseRecord, RecordError
from kvedge.handler.fencing.watchdog_device import Watchdog, WatchdogError
from kvedge.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from kvedge.resources.node_loss.fence_terms import FenceTerms
from kvedge.resources.node_loss.node_lease import NodeFence

log = logging.getLogger(__name__)

_NO_WATCHDOG: Final = "NoWatchdog"
_FENCED: Final = "FencedItself"
_REFUSED: Final = "FencingRefused"


class FenceTools(Struct, frozen=True):
    """What the keeper works with."""

    door: LeaseDoor
    record: PromiseRecord
    wishes: Wishes
    # Arms the watchdog for so many seconds; raises WatchdogError.
    arm: Callable[[int], Watchdog]
    # Kills what is left of guests, and counts it.
    kill: Callable[[Mapping[str, str]], int]
    # Whether anything is left of a VMI, in its Pod.
    runs: Callable[[str, str], bool]
    # CLOCK_BOOTTIME.
    boottime: Callable[[], float]
    # Has the Node's users told: reason and text.
    tell: Callable[[str, str], None]


class _GuestLeftError(Exception):
    """The node has been fenced, and something that it promised to end is left."""


class FenceKeeper:
    """One node's promise."""

    def __init__(self, tools: FenceTools, node: str, boot_id: str) -> None:
        self._tools = tools
        self._node = node
        self._boot_id = boot_id
        # Held while the promise or the watchdog changes: nobody feeds or arms for what is promised no more.
        self._lock = threading.RLock()
        self._has_left = False
        self._promise = Promise(boot_id)
        self._watchdog: Watchdog | None = None
        # The lease as the server has it; None while that is not known.
        self._lease: NodeFence | None = None
        # The guests of which the latest look has found nothing.
        self._clean: frozenset[str] = frozenset()
        self._told = ""
        # Whether the record knows less of renewals than this does.
        self._is_late = False

    def load(self) -> None:
        """Find what an earlier handler has promised."""
        try:
            self._promise = self._tools.record.load(self._boot_id)
        except RecordError as error:
            # The lease tells what was promised. Until then nobody feeds a watchdog that may be armed.
            log.error("the record of promised guests is damaged", extra={"facts": {"error": str(error)}})

    @property
    def terms(self) -> FenceTerms:
        """How often to look and to renew."""
        return self._promise.terms or FenceTerms()

    def refuse_start(self, vmi_uid: str) -> str:
        """Why nothing of a VMI may begin on this node now; empty when it may."""
        return refuse_start(self._promise, vmi_uid, self._tools.boottime())

    def look(self) -> None:
        """Feed the watchdog, or end the guests."""
        with self._lock:
            promise = self._promise
        order = plan_look(promise, self._tools.boottime())
        if order is not Order.KILL:
            self._clean = frozenset()
        else:
            left = self._tools.kill(promise.guests)
            self._clean = frozenset(promise.guests) if left == 0 else frozenset()
            if left:
                log.error("guests ended by the fencer", extra={"facts": {"processes": left}})
                self._tell(_FENCED, "the node could not renew its lease, and has ended the guests that it promised to")
                return
        if order is not Order.REST:
            self._feed()

    def renew(self) -> None:
        """Bring the lease to what it should say, and renew it while it promises anything."""
        wish = self._tools.wishes.read()
        if self._lease is None and not self._promise.guests and (wish is None or wish.terms is None):
            return
        try:
            if self._lease is None:
                self._lease = self._tools.door.read()
            self._renew(self._lease, wish)
        except (Conflict, AlreadyExists):
            # Somebody else has written: perhaps that this node is fenced.
            self._lease = None
        except NotFound as error:
            # Somebody has deleted it. Nobody can declare a node fenced whose lease is not there.
            self._take_back(NodeFence(self._node), error)
            self._lease = None
        except (Forbidden, Invalid) as error:
            self._take_back(self._lease, error)
        except (KubeError, RecordError) as error:
            # The server may have taken the write all the same.
            self._lease = None
            self._tell("", f"the lease of this node is not renewed: {error}")

    def leave(self) -> None:
        """The handler ends in order: promise nothing any more. Where that cannot be said, the timer runs on."""
        with self._lock:
            armed, self._watchdog = self._watchdog, None
            self._has_left = True
        try:
            if self._promise.guests:
                self._release()
            if armed is not None:
                armed.disarm()
        except (KubeError, RecordError, _GuestLeftError) as error:
            if armed is not None:
                armed.leave()
            facts = {"error": str(error), "seconds": self.terms.watchdog}
            log.warning("the watchdog runs on, and the promise stays", extra={"facts": facts})

    def _release(self) -> None:
        lease = self._lease or self._tools.door.read()
        left = {uid for uid, pod in self._promise.guests.items() if self._tools.runs(uid, pod)}
        if left & lease.gone:
            # The next handler kills it, or the timer does.
            raise _GuestLeftError("a guest that may run elsewhere is still here")
        gone = self._promise.guests.keys() - left
        after = replace(lease, promised=frozenset(), watchdog="", terms=None, gone=lease.gone | (gone & lease.promised))
        self._tools.door.write(after)
        self._lease = after
        self._keep(narrow(self._promise, after))

    def _renew(self, server: NodeFence, wish: Wish | None) -> None:
        lease = after_boot(replace(server, node=self._node), self._boot_id)
        if lease.promised - self._promise.guests.keys():
            self._find_again(lease)
            return
        if lease.gone != self._promise.gone:
            self._keep(replace(self._promise, gone=lease.gone))
        if not self._bury(lease):
            return
        promised = frozenset(self._choose(lease, wish))
        watchdog = "" if self._watchdog is None else f"{self._watchdog.name}, {self._watchdog.seconds} s"
        here = lease.gone if wish is None else wish.here
        after = replace(
            next_lease(lease, promised, here, watchdog if promised else ""),
            terms=self._promise.terms if promised else None,
        )
        if promised or server.promised or after.gone != server.gone:
            sent = self._tools.boottime()
            self._tools.door.write(after)
            self._keep(replace(narrow(self._promise, after), t_ok=sent))
            self._lease = after
            self._told = ""
        self._rest()

    def _find_again(self, lease: NodeFence) -> None:
        """The record is lost. Whatever the lease promises is promised, from the next renewal on that is answered."""
        sent = self._tools.boottime()
        self._tools.door.write(lease)
        guests = {**dict.fromkeys(lease.promised, ""), **self._promise.guests}
        self._keep(replace(self._promise, guests=guests, terms=self._promise.terms or lease.terms, t_ok=sent))
        self._lease = lease

    def _take_back(self, lease: NodeFence | None, error: KubeError) -> None:
        """The server has refused to let this node promise more than in this lease: nobody counts on that."""
        if lease is not None:
            self._keep(narrow(self._promise, lease))
            self._rest()
        self._tell(_REFUSED, f"this node may not write its lease, and fences nothing: {error}")

    def _bury(self, lease: NodeFence) -> bool:
        """Whether nothing is left of guests that the lease calls gone. The fencer kills them; this waits for it."""
        lost = lease.gone & self._promise.guests.keys()
        if not lost <= self._clean:
            return False
        if lost:
            kept = {uid: pod for uid, pod in self._promise.guests.items() if uid not in lost}
            self._keep(replace(self._promise, guests=kept))
        return True

    def _choose(self, lease: NodeFence, wish: Wish | None) -> dict[str, str]:
        """What the lease is to promise next; the watchdog is armed and the record written for it."""
        if wish is None:
            # Nobody has said anything new.
            return {uid: pod for uid, pod in self._promise.guests.items() if uid in lease.promised}
        target = choose_promised(wish.guests, lease.gone)
        if not target or wish.terms is None or not self._is_armed(wish.terms):
            return {}
        assert self._watchdog is not None
        if not self._promise.guests:
            # The first promise counts from before it is made.
            self._keep(replace(self._promise, t_ok=self._tools.boottime()))
        self._keep(widen(self._promise, target, wish.terms.with_watchdog(self._watchdog.seconds)))
        return target

    def _is_armed(self, terms: FenceTerms) -> bool:
        # While anything is promised the fencer opens the device, after it has looked.
        if self._watchdog is None and not self._promise.guests:
            self._arm(terms.watchdog, terms.watchdog)
        return self._watchdog is not None

    def _arm(self, seconds: int, most: int) -> None:
        try:
            armed = self._tools.arm(seconds)
        except WatchdogError as error:
            self._tell(_NO_WATCHDOG, f"no guest of this node is restarted elsewhere when it is lost: {error}")
            return
        if armed.seconds > most:
            armed.disarm()
            self._tell(_NO_WATCHDOG, f"{armed.name} takes {armed.seconds} s at least; set watchdog={armed.seconds}s")
            return
        self._watchdog = armed

    def _feed(self) -> None:
        with self._lock:
            terms = self._promise.terms
            if self._has_left or not self._promise.guests or terms is None:
                return
            if self._watchdog is None:
                self._arm(terms.watchdog, terms.watchdog)
                return
            try:
                self._watchdog.feed()
            except WatchdogError as error:
                self._tell(_NO_WATCHDOG, str(error))

    def _rest(self) -> None:
        """Nothing is promised: the watchdog is not needed."""
        with self._lock:
            if not self._promise.guests and self._watchdog is not None:
                armed, self._watchdog = self._watchdog, None
                armed.disarm()

    def _keep(self, promise: Promise) -> None:
        if promise == self._promise:
            return
        try:
            self._tools.record.save(promise)
        except RecordError as error:
            if replace(promise, t_ok=self._promise.t_ok) != self._promise:
                raise
            # That the node was heard may be told late to a handler that starts anew: it only ends guests the earlier.
            if not self._is_late:
                log.warning(
                    "renewals of this node's lease are not written down", extra={"facts": {"error": str(error)}}
                )
            self._is_late = True
        else:
            self._is_late = False
        with self._lock:
            self._promise = promise

    def _tell(self, reason: str, text: str) -> None:
        if text == self._told:
            return
        self._told = text
        log.warning("fencing", extra={"facts": {"what": text}})
        if reason:
            self._tools.tell(reason, text)
