"""Keeps the ControllerRevision of what each VM's run was started from, and takes the one before away.

Used by the VM loop. The run and its status go on without one: a refusal is told to the VM's user once.
"""

from __future__ import annotations

import contextlib
import logging

from msgspec import Struct

from kvedge.controller.vm.create_refusal import is_passing
from kvedge.controller.vm.vm_actions import KeepRevision
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.vm import VirtualMachine

log = logging.getLogger(__name__)


class _Known(Struct, frozen=True):
    """A revision that is there; the UID is empty for one that a controller before us has made."""

    name: str
    uid: str


class RevisionKeeper:
    """What is known of the revisions, by the VM's UID."""

    def __init__(self, client: KubeClient, events: EventRecorder) -> None:
        self._client = client
        self._events = events
        # The newest revision of each VM that is known to be there: a restart makes no other.
        self._newest: dict[str, _Known] = {}
        # The VMs that were told that theirs is refused.
        self._without: set[str] = set()

    def forget(self, uid: str) -> None:
        """The VM is gone."""
        self._newest.pop(uid, None)
        self._without.discard(uid)

    def keep(self, vm: VirtualMachine, action: KeepRevision) -> KubeError | None:
        """Keep what the run was started from; why not, when it is worth another try.

        The run and its status go on without it. A VM whose revision is refused for good is told once.
        """
        uid, meta = vm.metadata.uid, action.revision.metadata
        before = self._newest.get(uid)
        try:
            if before is None or before.name != meta.name:
                self._newest[uid] = _Known(meta.name, self._create(action.revision))
            if action.superseded:
                # A controller that did not make it knows its name alone, which has the VM's UID in it.
                known = before is not None and before.name == action.superseded and before.uid
                with contextlib.suppress(NotFound, Conflict):
                    self._client.delete(
                        ControllerRevision, meta.namespace, action.superseded, Preconditions(known) if known else None
                    )
        except KubeError as error:
            if is_passing(error) or isinstance(error, Conflict):
                return error
            if uid not in self._without:
                self._without.add(uid)
                log.warning("revision not kept", extra={"facts": {"vm": vm.metadata.name, "error": str(error)}})
                message = f"Failed to create controller revision for VirtualMachine: {error}"
                self._events.record(vm, "Warning", "FailedRevision", message)
        else:
            self._without.discard(uid)
        return None

    def _create(self, revision: ControllerRevision) -> str:
        """Its UID; empty for one that is there already."""
        try:
            return self._client.create(revision).metadata.uid
        except AlreadyExists:
            return ""
