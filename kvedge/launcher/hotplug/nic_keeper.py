"""Brings the NICs of the running domain to what the VMI wants, one at a time, in a thread of its own.

Kept by `domain_run`. `follow` is called by each Sync, `look_soon` after each event; what is there is read from libvirt
each time, so that a launcher that was started again goes on where the one before was killed. Nothing here waits for
the guest: a NIC that it does not release is asked for again, with pauses that grow, and holds up no other one.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kvedge.launcher.hotplug.attempts import Attempt, note_attempt
from kvedge.launcher.hotplug.document_process import DiskDocument, make_documents
from kvedge.launcher.hotplug.nic_plan import NicAction, NicStep, NicWishes, plan_nics, read_nic_wishes
from kvedge.launcher.launcher_errors import LauncherError, Unanswered
from kvedge.rpc.launcher_pb2 import (
    NIC_ACTION_ATTACH,
    NIC_ACTION_DETACH,
    NIC_ACTION_LINK,
    NicTrouble,
    SyncRequest,
)
from kvedge.runtime.background import BackgroundThread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# A change that is under way ends before wishes are exchanged; libvirt gives QEMU half a minute.
HAND_OVER_SECONDS: Final = 20.0
# Events say when to look; this is for the one that never came.
LOOK_AGAIN_SECONDS: Final = 10.0
LONGEST_MESSAGE: Final = 512

_ACTIONS: Final = {
    NicAction.ATTACH: NIC_ACTION_ATTACH,
    NicAction.DETACH: NIC_ACTION_DETACH,
    NicAction.LINK: NIC_ACTION_LINK,
}


class NicKeeper:
    """The NICs of one domain that come, go, or change their link; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        on_change: Callable[[], None],
        make: Callable[[dict[str, Any]], dict[str, DiskDocument]] = make_documents,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change()` is called after a change, and for what there is to tell."""
        self._session = session
        self._on_change = on_change
        self._make = make
        self._clock = clock
        # Taken for one change at a time.
        self._acting = threading.Lock()
        self._wanted = threading.Event()
        self._thread: BackgroundThread | None = None
        self._request = SyncRequest()
        self._wishes = NicWishes({}, frozenset())
        self._attempts: dict[str, Attempt[NicStep]] = {}

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want what this VMI has; once this returns nothing is done any more for what was wanted before.

        Raises:
            BadRequest: when it is no VMI.
            Unanswered: when a change is under way that does not end.
        """
        wishes = read_nic_wishes(request.vmi_json, (entry.name for entry in request.interfaces))
        if not self._acting.acquire(timeout=HAND_OVER_SECONDS):
            raise Unanswered("libvirt is still busy with another NIC")
        try:
            self._request, self._wishes = request, wishes
            if present is not None and plan_nics(wishes, present.nics):
                self.start()
        finally:
            self._acting.release()
        self.look_soon()

    def start(self) -> None:
        """Begin to look after the NICs; a guest whose NICs stay as they are costs no thread."""
        if self._thread is None:
            self._thread = BackgroundThread("nic-keeper", self._keep)
            self._thread.start()

    def look_soon(self) -> None:
        """Something may have changed."""
        self._wanted.set()

    def troubles(self) -> list[NicTrouble]:
        """What is in the way, for those who watch."""
        now = self._clock()
        return [_trouble(item, now) for _, item in sorted(self._attempts.items()) if item.is_told(now)]

    def _keep(self) -> None:
        pause = 0.0
        while True:
            if pause > 0:
                self._wanted.wait(pause)
            self._wanted.clear()
            pause = self.look()

    def look(self) -> float:
        """Do what can be done now; after how many seconds to look again."""
        try:
            facts = self._session.facts()
        except LauncherError as error:
            log.warning("could not look at the NICs", extra={"facts": {"why": str(error)}})
            return LOOK_AGAIN_SECONDS
        if facts is None or not facts.is_active:
            return LOOK_AGAIN_SECONDS
        with self._acting:
            request, steps = self._request, plan_nics(self._wishes, facts.nics)
        self._forget_all_but(steps)
        now = self._clock()
        due = [step for step in steps if self._is_due(step, now)]
        documents = self._documents(due, request)
        for step in due:
            with self._acting:
                if self._request is not request:
                    # Another VMI is wanted by now: planned anew.
                    return 0.0
                self._do(step, documents.get(step.name, DiskDocument()))
        dues = [self._attempts[step.name].due - self._clock() for step in steps if step.name in self._attempts]
        return max(0.05, min([LOOK_AGAIN_SECONDS, *dues]))

    def _is_due(self, step: NicStep, now: float) -> bool:
        before = self._attempts.get(step.name)
        return before is None or before.step != step or now >= before.due

    def _forget_all_but(self, steps: list[NicStep]) -> None:
        wanted = {step.name: step for step in steps}
        kept = {name: item for name, item in self._attempts.items() if wanted.get(name) == item.step}
        if len(kept) != len(self._attempts):
            self._attempts = kept
            self._on_change()

    def _documents(self, steps: list[NicStep], request: SyncRequest) -> dict[str, DiskDocument]:
        coming = {step.name for step in steps if step.action is NicAction.ATTACH}
        if not coming:
            return {}
        question = {
            "vmi": json.loads(request.vmi_json),
            "nics": {
                entry.name: {"tap": entry.tap, "mac": entry.mac, "mtu": entry.mtu}
                for entry in request.interfaces
                if entry.name in coming
            },
            "libvirtVersion": self._session.libvirt_version,
        }
        try:
            return self._make(question)
        except LauncherError as error:
            return {name: DiskDocument(error=str(error)) for name in coming}

    def _do(self, step: NicStep, document: DiskDocument) -> None:
        error = document.error
        if not error:
            try:
                self._change(step, document)
            except LauncherError as refusal:
                error = str(refusal)
        before = self._attempts.get(step.name)
        known = before if before and before.step == step else None
        made = note_attempt(known, step, self._clock(), error, asks=step.action is NicAction.DETACH)
        if error:
            log.warning("a NIC was not changed", extra={"facts": {"nic": step.name, "why": error[:LONGEST_MESSAGE]}})
        if error or step.action is NicAction.DETACH:
            self._attempts = {**self._attempts, step.name: made}
        else:
            self._attempts = {name: item for name, item in self._attempts.items() if name != step.name}
            log.info("NIC changed", extra={"facts": {"nic": step.name, "done": step.action.value}})
        self._on_change()

    def _change(self, step: NicStep, document: DiskDocument) -> None:
        if step.action is NicAction.DETACH:
            self._session.detach_device(step.name)
        elif step.action is NicAction.ATTACH:
            self._session.attach_device(document.xml)
        else:
            self._session.set_link(step.name, down=step.down)


def _trouble(item: Attempt[NicStep], now: float) -> NicTrouble:
    since = int((time.time() - (now - item.since)) * 1000)
    return NicTrouble(
        name=item.step.name,
        action=_ACTIONS[item.step.action],
        message=item.error[:LONGEST_MESSAGE],
        tries=item.tries,
        since_unix_ms=since,
    )
