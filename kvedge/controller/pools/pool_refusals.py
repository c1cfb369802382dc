"""What the server refuses while one pool is worked on: the first is told, and its VM is left alone for this time.

Used by the pool's loop. Pure.
"""

from __future__ import annotations

from msgspec import Struct, field

from kvedge.controller.pools.pool_actions import (
    CreateVm,
    DeleteVm,
    Detach,
    KeepRevision,
    LetGo,
    PoolAction,
    Prune,
    Relabel,
    Restart,
    UpdateVm,
)
from kvedge.controller.pools.pool_status import PRUNING, SCALE_IN, SCALE_OUT, UPDATE


class Refusals(Struct):
    """Those of one pass over a pool; others of its VMs do not wait for the VMs that are refused."""

    # The reason and the message.
    first: tuple[str, str] | None = None
    # UIDs of VMs.
    vms: set[str] = field(default_factory=set)
    # Whether no VM can be made, and whether something else was refused.
    creation: bool = False
    others: bool = False

    def note(self, action: PoolAction, error: Exception) -> bool:
        """Take one in; whether it is the first of its kind."""
        self.first = self.first or (failure_reason(action), str(error))
        self.vms |= _find_vm(action)
        if isinstance(action, CreateVm | KeepRevision):
            known, self.creation = self.creation, True
        else:
            known, self.others = self.others, True
        return not known

    @property
    def extent(self) -> tuple[int, bool]:
        """What grows as long as another plan would leave something else alone."""
        return len(self.vms), self.creation


def failure_reason(action: PoolAction) -> str:
    """The reason of the condition when an action is refused."""
    match action:
        case CreateVm() | KeepRevision():
            return SCALE_OUT
        case DeleteVm(_, _, "scale" | "heal") | LetGo() | Detach():
            return SCALE_IN
        case Prune():
            return PRUNING
    return UPDATE


def _find_vm(action: PoolAction) -> set[str]:
    match action:
        case DeleteVm(vm) | LetGo(vm) | Detach(vm) | UpdateVm(vm):
            return {vm.metadata.uid}
        case Restart(vmi) | Relabel(vmi):
            owner = vmi.metadata.controller_reference()
            return set() if owner is None else {owner.uid}
    return set()
