"""What the controller sees of one migration, and what it can do: the words that its plan and its loop share.

Made by `migration_loop`, read and answered by `migration_plan`, done by `migration_steps`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kvedge.kube.events import EventType
from kvedge.resources.configuration.support_containers import Support
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import (
    MigrationState,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationStatus,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance

ABORT_REQUESTED: Final = "migrationAbortRequested"
REJECTED_BY_QUOTA: Final = "migrationRejectedByResourceQuota"
# Ours: true while a migration waits before its hand-over, with what for.
WAITING: Final = "migrationWaiting"
# In these phases the handlers have it.
HANDED_OVER: Final = frozenset({"PreparingTarget", "TargetReady", "Running"})


@dataclass(frozen=True, slots=True)
class Told:
    """An event of the migration."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CreateTarget:
    """Make the Pod that the guest comes to."""


@dataclass(frozen=True, slots=True)
class CreateAttachments:
    """Hold the claims of hotplugged volumes on the target's node."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class ConfirmFree:
    """Ask the server whether the migration is not handed over, before the actions after it: a cache may be behind."""


@dataclass(frozen=True, slots=True)
class DeleteTarget:
    """End the Pod that no guest comes to, once the server confirms that the migration is not handed over."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class DeleteEnded:
    """Take away a Pod that has ended, and that was kept for its logs."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class HandOver:
    """Tell both handlers, by one write of the VMI; the configuration is added to `state`."""

    state: MigrationState
    target: Pod


@dataclass(frozen=True, slots=True)
class SendAway:
    """Have the guest leave for another box, by one write of the VMI; its VM is held before."""

    state: MigrationState
    place: str


@dataclass(frozen=True, slots=True)
class DeclareLost:
    """A user has said that the guest runs nowhere: it has left, and the other box is lost for good."""


@dataclass(frozen=True, slots=True)
class FreeVm:
    """The guest stays, or is lost: its VM may start again here."""


@dataclass(frozen=True, slots=True)
class HaltVm:
    """The guest is another box's: its VM is halted here, and says where it went."""

    place: str


@dataclass(frozen=True, slots=True)
class RequestAbort:
    """Ask the source's handler to keep the guest."""


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write the migration's status down, against the version that was planned on."""

    status: VirtualMachineInstanceMigrationStatus


@dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off."""


@dataclass(frozen=True, slots=True)
class DropState:
    """Take away a claim with the state of TPM and firmware that counts no more, unless the server still has a use."""

    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class DeleteMigration:
    """Delete the migration itself: its VMI is gone, or newer ones are kept."""


MigrationAction: TypeAlias = (
    ConfirmFree
    | CreateTarget
    | CreateAttachments
    | DeleteTarget
    | DeleteEnded
    | HandOver
    | SendAway
    | DeclareLost
    | FreeVm
    | HaltVm
    | RequestAbort
    | PatchStatus
    | Release
    | DropState
    | DeleteMigration
)


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """Actions in order, what is told once they are done, and in how many seconds to look again."""

    actions: tuple[MigrationAction, ...] = ()
    told: tuple[Told, ...] = ()
    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class MigrationView:
    """What is seen.

    Attributes:
        migration: the migration.
        vmi: its VMI, or None.
        pods: the Pods that the VMI owns.
        others: other migrations of the VMI.
        has_turn: whether the limits let it begin now.
        version: that of this controller.
        versions: those of the handlers, by node.
        attachments: the attachment Pods of the target's launcher.
        claims: those of the VMI's hotplugged volumes, by name.
        left_state: a claim with the state of TPM and firmware that it leaves without a use.
        support: what the KubeVirt object says of the attachment Pods' CPU and memory.
    """

    migration: VirtualMachineInstanceMigration
    vmi: VirtualMachineInstance | None
    pods: Sequence[Pod] = ()
    others: Sequence[VirtualMachineInstanceMigration] = ()
    has_turn: bool = True
    version: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    attachments: Sequence[Pod] = ()
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    support: Support = field(default_factory=dict)
    left_state: PersistentVolumeClaim | None = None

    @property
    def state(self) -> MigrationState | None:
        """What the VMI says of this very migration."""
        state = None if self.vmi is None else self.vmi.status.migration_state
        return state if state is not None and state.migration_uid == self.migration.job else None
