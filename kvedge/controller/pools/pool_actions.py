"""What a pool's plan says that is to be done.

Made by pool_plan.py, carried out by pool_writes.py. Touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


@dataclass(frozen=True, slots=True)
class KeepRevision:
    """Have the pool's spec of this generation written down."""


@dataclass(frozen=True, slots=True)
class CreateVm:
    """Make the VM of a number, of a revision."""

    number: int
    revision: str


@dataclass(frozen=True, slots=True)
class DeleteVm:
    """End a VM; with `keeps` its DataVolumes stay for the next one of its number."""

    vm: VirtualMachine
    keeps: bool
    why: Literal["scale", "heal", "update"] = "scale"


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take our finalizer from a VM that is being deleted, its DataVolumes first where they stay."""

    vm: VirtualMachine
    keeps: bool


@dataclass(frozen=True, slots=True)
class Detach:
    """Own a VM no more whose labels do not match any more."""

    vm: VirtualMachine


@dataclass(frozen=True, slots=True)
class UpdateVm:
    """Bring a VM to the pool's template; `before` is the one that it was made of, as far as it is known."""

    vm: VirtualMachine
    before: JsonObject | None


@dataclass(frozen=True, slots=True)
class Restart:
    """End a VMI, so that its VM starts another one."""

    vmi: VirtualMachineInstance


@dataclass(frozen=True, slots=True)
class Relabel:
    """Have a VMI say that it is of the newer revision: nothing of its template has changed."""

    vmi: VirtualMachineInstance
    revision: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Take a revision away that nobody has any more."""

    revision: ControllerRevision


PoolAction: TypeAlias = KeepRevision | CreateVm | DeleteVm | LetGo | Detach | UpdateVm | Restart | Relabel | Prune


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Actions in order, and in how many seconds to look again when nothing changes."""

    actions: tuple[PoolAction, ...] = ()
    again_after: float | None = None
