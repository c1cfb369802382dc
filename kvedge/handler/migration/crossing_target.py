"""The target's side of a guest's way from another box: answer from what the VMI says, write down what is heard.

Called by the target's steps, and for a guest that has come as long as its source has not heard that. Talks to the API;
the relay talks to the desk.
"""

from __future__ import annotations

from msgspec import Struct, field

from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.migration.crossing_desk import CrossingDesk
from kvedge.handler.migration.crossing_words import heard_source_patch, words_of_target
from kvedge.kube.patches import MergePatch
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock


class CrossingTarget(Struct):
    """All guests that come to one node from other boxes."""

    desk: CrossingDesk
    node: str
    clock: Clock
    # The migration that is answered for, by the VMI's key.
    _known: dict[Key, str] = field(default_factory=dict)

    def listen(self, key: Key, vmi: VirtualMachineInstance, state: MigrationState) -> MergePatch | None:
        """Answer for this guest from now on; what of the source's words is to be written down, None when nothing is."""
        uid = state.migration_uid
        if self._known.get(key, uid) != uid:
            self.forget(key)
        self._known[key] = uid
        heard = self.desk.expect(uid, key, words_of_target(vmi, state, self.node))
        return None if heard is None else heard_source_patch(vmi, state, heard, self.clock.now())

    def silent_seconds(self, uid: str) -> float:
        """For how long nothing was heard of the box that a guest comes from."""
        return self.desk.silent_seconds(uid)

    def tell_arrived(self, key: Key, vmi: VirtualMachineInstance) -> MergePatch | None:
        """The guest is this node's: its source is answered until it has heard that. What is to be written down."""
        state = vmi.status.migration_state
        if state is None or state.source_state is None or state.source_state.over:
            self.forget(key)
            return None
        return self.listen(key, vmi, state)

    def forget(self, key: Key) -> None:
        """Nobody is answered any more."""
        uid = self._known.pop(key, None)
        if uid is not None:
            self.desk.forget(uid)


def is_paused_there(state: MigrationState) -> bool:
    """Whether a user had paused the guest on the other box."""
    return state.source_state is not None and state.source_state.paused
