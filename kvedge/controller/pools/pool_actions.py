"""What a pool's plan says that is to be done.

Made by pool_plan.py, carried out by pool_writes.py. Touches nothing.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


class KeepRevision(Struct, frozen=True):
    """Have the pool's spec of this generation written down."""


class CreateVm(Struct, frozen=True):
    """Make the VM of a number, of a revision."""

    number: int
    revision: str


class DeleteVm(Struct, frozen=True):
    """End a VM; with `keeps` its DataVolumes stay for the next one of its number."""

    vm: VirtualMachine
    keeps: bool
    why: Literal["scale", "heal", "update"] = "scale"


class LetGo(Struct, frozen=True):
    """Take our finalizer from a VM that is being deleted, its DataVolumes first where they stay."""

    vm: VirtualMachine
    keeps: bool


class Detach(Struct, frozen=True):
    """Own a VM no more whose labels do not match any more."""

    vm: VirtualMachine


class UpdateVm(Struct, frozen=True):
    """Bring a VM to the pool's template; `before` is the one that it was made of, as far as it is known."""

    vm: VirtualMachine
    before: JsonObject | None


class Restart(Struct, frozen=True):
    """End a VMI, so that its VM starts another one."""

    vmi: VirtualMachineInstance


class Relabel(Struct, frozen=True):
    """Have a VMI say that it is of the newer revision: nothing of its template has changed."""

    vmi: VirtualMachineInstance
    revision: str


class Prune(Struct, frozen=True):
    """Take a revision away that nobody has any more."""

    revision: ControllerRevision


PoolAction: TypeAlias = KeepRevision | CreateVm | DeleteVm | LetGo | Detach | UpdateVm | Restart | Relabel | Prune


class PoolPlan(Struct, frozen=True):
    """Actions in order, and in how many seconds to look again when nothing changes."""

    actions: tuple[PoolAction, ...] = ()
    again_after: float | None = None
