"""Brings the disks of the running domain to what the VMI wants, one at a time, in a thread of its own.

Kept by `domain_run`. `follow` is called by each Sync, `look_soon` after each event; what is there is read from libvirt
each time, so that a launcher that was started again goes on where the one before was killed. A device is held for this
guest alone before it is attached, see `device_locks`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvedge.launcher.hotplug.device_keeper import LOOK_AGAIN_SECONDS, DeviceKeeper
from kvedge.launcher.hotplug.device_locks import DeviceLocks
from kvedge.launcher.hotplug.disk_wishes import Wishes, read_wishes
from kvedge.launcher.hotplug.document_process import DiskDocument, DocumentProcess
from kvedge.launcher.hotplug.hotplug_plan import Action, Step, coming, plan
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.resources.disks.hotplug_places import HOTPLUG_DIRECTORY
from kvedge.rpc.launcher_pb2 import (
    DISK_ACTION_ATTACH,
    DISK_ACTION_DETACH,
    DISK_ACTION_EJECT,
    DISK_ACTION_INSERT,
    DiskTrouble,
    SyncRequest,
)

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

_ACTIONS: Final = {
    Action.ATTACH: DISK_ACTION_ATTACH,
    Action.DETACH: DISK_ACTION_DETACH,
    Action.INSERT: DISK_ACTION_INSERT,
    Action.EJECT: DISK_ACTION_EJECT,
}


class DiskKeeper(DeviceKeeper[Step]):
    """The hotplugged disks of one domain; every method may be called from any thread."""

    device = "disk"

    def __init__(
        self,
        session: LibvirtSession,
        root: str,
        on_change: Callable[[], None],
        documents: DocumentProcess | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change()` is called after a change, and for what there is to tell; `root` is before the Pod's paths."""
        super().__init__(session, on_change, clock)
        self._root = root
        self._directory = root + HOTPLUG_DIRECTORY
        self._locks = DeviceLocks(self._directory)
        self._process = documents if documents is not None else DocumentProcess()
        self._request = b""
        self._wishes = Wishes({}, frozenset())
        # Of the wished disks those that are to be attached once their volumes have come.
        self._coming: frozenset[str] = frozenset()

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want what this VMI has; once this returns nothing is done any more for what was wanted before.

        Raises:
            BadRequest: when it is no VMI.
            Unanswered: when a change is under way that does not end.
        """
        wishes = read_wishes(request.vmi_json, self._root)
        with self._handing_over():
            self._request, self._wishes = request.vmi_json, wishes
            disks = present.disks if present is not None else ()
            steps = plan(wishes, disks, self._directory)
            if present is not None:
                self._expect(coming(wishes, disks))
            # A launcher that was killed may have left a device held whose disk has gone.
            if steps or self._coming or self._locks.find_unused(disks, steps):
                self.start()
        self.look_soon()

    def _expect(self, names: frozenset[str]) -> None:
        # Once for each disk: a volume that never comes must not cost a process for ever.
        if names - self._coming:
            self._process.expect()
        self._coming = names

    def troubles(self) -> list[DiskTrouble]:
        """What is in the way, for those who watch."""
        return [DiskTrouble(action=_ACTIONS[step.action], **facts) for step, facts in self._describe_troubles()]

    def look(self) -> float:
        """Do what can be done now; after how many seconds to look again."""
        facts = self._read_domain()
        if facts is None:
            return LOOK_AGAIN_SECONDS
        with self._acting:
            request = self._request
            self._wishes = read_wishes(request, self._root)
            steps = plan(self._wishes, facts.disks, self._directory)
            self._locks.free(self._locks.find_unused(facts.disks, steps))
            self._coming = expected = self._coming & coming(self._wishes, facts.disks)
        due = self._choose_due(steps)
        documents = self._documents(due, facts)
        if expected:
            self._process.forget_ended()
        else:
            self._process.rest()
        for step in due:
            with self._acting:
                if self._request is not request:
                    # Another VMI is wanted by now: planned anew.
                    return 0.0
                self._do(step, documents.get(step.name, DiskDocument()), facts)
        return self._pause_before(steps)

    def _documents(self, steps: list[Step], facts: DomainFacts) -> dict[str, DiskDocument]:
        names = [step.name for step in steps if step.action is Action.ATTACH]
        if not names:
            return {}
        question = {
            "vmi": json.loads(self._request),
            "names": names,
            "present": {disk.name or f"={disk.target}": disk.target for disk in facts.disks},
            "root": self._root,
            "libvirtVersion": self._session.libvirt_version,
        }
        try:
            return self._process.make(question)
        except LauncherError as error:
            return {name: DiskDocument(error=str(error)) for name in names}

    def _do(self, step: Step, document: DiskDocument, facts: DomainFacts) -> None:
        asks = step.action is Action.DETACH
        if self._try_step(step, lambda: self._change(step, document, facts), document.error, asks=asks):
            log.info("disk changed", extra={"facts": {"disk": step.name, "done": step.action.value}})
        self._on_change()

    def _change(self, step: Step, document: DiskDocument, facts: DomainFacts) -> None:
        wish = step.wish
        if step.action is Action.DETACH:
            self._session.detach_device(step.name)
        elif step.action is Action.ATTACH:
            if document.io_thread > facts.io_threads:
                self._add_io_threads(document.io_thread)
            if wish is not None:
                self._locks.take(wish)
            self._session.attach_device(document.xml)
        else:
            path = wish.path if wish is not None else ""
            self._session.change_medium(step.name, path, block=wish is not None and wish.block)

    def _add_io_threads(self, needed: int) -> None:
        present = self._session.facts()
        for number in range((present.io_threads if present is not None else 0) + 1, needed + 1):
            self._session.add_io_thread(number)
