"""Brings the NICs of the running domain to what the VMI wants, one at a time, in a thread of its own.

Kept by `domain_run`. `follow` is called by each Sync, `look_soon` after each event; what is there is read from libvirt
each time, so that a launcher that was started again goes on where the one before was killed.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from kvedge.launcher.hotplug.device_keeper import LOOK_AGAIN_SECONDS, DeviceKeeper
from kvedge.launcher.hotplug.document_process import DiskDocument, make_documents
from kvedge.launcher.hotplug.nic_plan import (
    NicAction,
    NicStep,
    NicWishes,
    find_switched,
    plan_nics,
    read_nic_wishes,
)
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.libvirt.domain_facts import DOWN_SECONDS
from kvedge.rpc.launcher_pb2 import (
    NIC_ACTION_ATTACH,
    NIC_ACTION_DETACH,
    NIC_ACTION_LINK,
    NicTrouble,
    SyncRequest,
)

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

_ACTIONS: Final = {
    NicAction.ATTACH: NIC_ACTION_ATTACH,
    NicAction.DETACH: NIC_ACTION_DETACH,
    NicAction.LINK: NIC_ACTION_LINK,
}


class NicKeeper(DeviceKeeper[NicStep]):
    """The NICs of one domain that come, go, or change their link; every method may be called from any thread."""

    device = "NIC"

    def __init__(
        self,
        session: LibvirtSession,
        on_change: Callable[[], None],
        make: Callable[[dict[str, Any]], dict[str, DiskDocument]] = make_documents,
        clock: Callable[[], float] = time.monotonic,
        is_leaving: Callable[[], bool] = lambda: False,
        root: str = "",
        told: Iterable[str] = (),
    ) -> None:
        """`on_change()` is called after a change, and for what there is to tell; nothing is changed while
        `is_leaving()`. `root` is before the Pod's paths. Of the networks of `told` NICs, to which a guest came by a
        migration, `link_refresh` lets it know.
        """
        super().__init__(session, on_change, clock)
        self._make = make
        self._is_leaving = is_leaving
        self._root = root
        self._request = SyncRequest()
        self._wishes = NicWishes({}, frozenset())
        # On which networks the NICs are that were taken to others; None until the first Sync tells.
        self._networks: dict[str, str] | None = None
        # Those of which the guest has not heard yet: their links go down for a moment, and it asks for addresses anew.
        self._unheard: frozenset[str] = frozenset()
        self._told = frozenset(told)

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want what this VMI has; once this returns nothing is done any more for what was wanted before.

        Raises:
            BadRequest: when it is no VMI.
            Unanswered: when a change is under way that does not end.
        """
        # What has neither is its sidecar's, and in the domain already, by whatever name.
        prepared = (entry.name for entry in request.interfaces if entry.tap or entry.HasField("passt"))
        wishes = read_nic_wishes(request.vmi_json, prepared)
        with self._handing_over():
            self._request, self._wishes = request, wishes
            if self._networks is not None:
                switched = find_switched(wishes, self._networks)
                self._unheard |= switched - self._told
                self._told -= switched
            self._networks = dict(wishes.switched)
            if present is not None and plan_nics(wishes, present.nics, self._unheard):
                self.start()
        self.look_soon()

    def wait_for_rest(self) -> None:
        """The guest is leaving: no change is under way any more once this returns, and none begins before it stays.

        Raises:
            Unanswered: when one does not end.
        """
        with self._handing_over():
            # A guest that stays gets back what it has given back for its move.
            self.start()

    def troubles(self) -> list[NicTrouble]:
        """What is in the way, for those who watch."""
        return [NicTrouble(action=_ACTIONS[step.action], **facts) for step, facts in self._describe_troubles()]

    def look(self) -> float:
        """Do what can be done now; after how many seconds to look again."""
        facts = None if self._is_leaving() else self._read_domain()
        if facts is None:
            return LOOK_AGAIN_SECONDS
        with self._acting:
            request, steps = self._request, plan_nics(self._wishes, facts.nics, self._unheard)
            # A NIC whose link is down anyway needs nothing more, nor one that has gone.
            self._unheard &= {step.name for step in steps if step.action is NicAction.LINK and step.down}
        due = self._choose_due(steps)
        documents = self._documents(due, request)
        refreshes = False
        for step in due:
            with self._acting:
                if self._request is not request:
                    # Another VMI is wanted by now: planned anew.
                    return 0.0
                if self._is_leaving():
                    return LOOK_AGAIN_SECONDS
                self._do(step, documents.get(step.name, DiskDocument()))
                if step.name in self._unheard and step.name not in self._attempts:
                    self._unheard -= {step.name}
                    refreshes = True
        return DOWN_SECONDS if refreshes else self._pause_before(steps)

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
        functions = sorted(coming & self._wishes.functions)
        if functions:
            question |= {"functions": functions, "root": self._root}
        try:
            return self._make(question)
        except LauncherError as error:
            return {name: DiskDocument(error=str(error)) for name in coming}

    def _do(self, step: NicStep, document: DiskDocument) -> None:
        asks = step.action is NicAction.DETACH
        if self._try_step(step, lambda: self._change(step, document), document.error, asks=asks):
            log.info("NIC changed", extra={"facts": {"nic": step.name, "done": step.action.value}})
        self._on_change()

    def _change(self, step: NicStep, document: DiskDocument) -> None:
        if step.action is NicAction.DETACH:
            self._session.detach_device(step.name)
        elif step.action is NicAction.ATTACH:
            self._session.attach_device(document.xml)
        else:
            self._session.set_link(step.name, down=step.down)
