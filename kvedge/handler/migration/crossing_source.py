"""The source's side of a guest's way to another box: say what the VMI says, write down what is answered.

Called by the source's steps, in each pass over a guest that moves so, or has. Talks to the API, and to the target by
its line. What this box and the other one know of each other goes through here alone.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.migration.crossing_line import REPEAT_SECONDS, Credential, CrossingLine
from kvedge.handler.migration.crossing_words import heard_target_patch, words_of_source
from kvedge.handler.pod_errors import PodNotReady
from kvedge.kube.events import EventRecorder
from kvedge.kube.patches import MergePatch
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance

# A target that does not answer, while nothing is decided here any more.
_LATER_SECONDS: Final = 5.0


class CrossingSource(Struct):
    """All guests that leave one node for other boxes."""

    line: CrossingLine
    events: EventRecorder
    # The UIDs of migrations of which the target knows all; and what was told of each.
    _over: set[str] = field(default_factory=set)
    _told: dict[str, str] = field(default_factory=dict)

    def converse(self, key: Key, vmi: VirtualMachineInstance, state: MigrationState) -> MergePatch | None:
        """Speak with the target; what of its answer is to be written down, None when nothing is."""
        peer, uid = state.target_state, state.migration_uid
        if peer is None or uid in self._over:
            return None
        words = words_of_source(vmi, state)
        try:
            answer = self.line.converse(uid, key, peer.sync_address, words)
        except PodNotReady as error:
            self._tell(vmi, uid, str(error))
            return None
        if trouble := self.line.trouble(uid):
            self._tell(vmi, uid, trouble)
        if not state.is_open:
            has_heard = answer is not None and (answer.heard_end if state.failed else True)
            if (has_heard and self.line.has_said(uid, words)) or self.line.is_unknown(uid):
                self._over.add(uid)
                self.line.forget(uid)
            return None
        return None if answer is None else heard_target_patch(vmi, state, answer)

    def again(self, state: MigrationState) -> float | None:
        """When to speak again."""
        if state.target_state is None or state.migration_uid in self._over:
            return None
        return REPEAT_SECONDS if state.is_open else _LATER_SECONDS

    def credential(self, uid: str) -> Credential:
        """By what the target is called. Raises PodNotReady."""
        return self.line.credential(uid)

    def forget(self, uid: str) -> None:
        """The guest is not this node's any more."""
        self._over.discard(uid)
        self._told.pop(uid, None)
        self.line.forget(uid)

    def _tell(self, vmi: VirtualMachineInstance, uid: str, why: str) -> None:
        """Tell each new trouble once."""
        if self._told.get(uid) != why:
            self._told[uid] = why
            self.events.record(vmi, "Warning", "CrossingWaits", why)
