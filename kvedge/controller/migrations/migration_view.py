"""What the controller sees of one migration, and what it can do: the words that its plan and its loop share.

Made by `migration_loop`, read and answered by `migration_plan`, done by `migration_steps`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field

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


class Told(Struct, frozen=True):
    """An event of the migration, or of its VMI."""

    type: EventType
    reason: str
    message: str
    is_of_vmi: bool = False


class CreateTarget(Struct, frozen=True):
    """Make the Pod that the guest comes to."""


class CreateAttachments(Struct, frozen=True):
    """Hold the claims of hotplugged volumes on the target's node."""

    pods: tuple[Pod, ...]


class ConfirmFree(Struct, frozen=True):
    """Ask the server whether the migration is not handed over, before the actions after it: a cache may be behind."""


class DeleteTarget(Struct, frozen=True):
    """End the Pod that no guest comes to, once the server confirms that the migration is not handed over."""

    pod: Pod


class DeleteEnded(Struct, frozen=True):
    """Take away a Pod that has ended, and that was kept for its logs."""

    pod: Pod


class HandOver(Struct, frozen=True):
    """Tell both handlers, by one write of the VMI; the configuration is added to `state`."""

    state: MigrationState
    target: Pod


class SendAway(Struct, frozen=True):
    """Have the guest leave for another box, by one write of the VMI; its VM is held before."""

    state: MigrationState
    place: str


class DeclareLost(Struct, frozen=True):
    """A user has said that the guest runs nowhere: it has left, and the other box is lost for good."""


class FreeVm(Struct, frozen=True):
    """The guest stays, or is lost: its VM may start again here."""


class HaltVm(Struct, frozen=True):
    """The guest is another box's: its VM is halted here, and says where it went."""

    place: str


class RequestAbort(Struct, frozen=True):
    """Ask the source's handler to keep the guest."""


class PatchStatus(Struct, frozen=True):
    """Write the migration's status down, against the version that was planned on."""

    status: VirtualMachineInstanceMigrationStatus


class Release(Struct, frozen=True):
    """Take the finalizer off."""


class DropState(Struct, frozen=True):
    """Take away a claim with the state of TPM and firmware that counts no more, unless the server still has a use."""

    claim: PersistentVolumeClaim


class DeleteMigration(Struct, frozen=True):
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


class MigrationPlan(Struct, frozen=True):
    """Actions in order, what is told once they are done, and in how many seconds to look again."""

    actions: tuple[MigrationAction, ...] = ()
    told: tuple[Told, ...] = ()
    again_after: float | None = None


class MigrationView(Struct, frozen=True):
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
        unsuited: the words for it where no other node has the CPU that the target's Pod demands.
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
    unsuited: str | None = None

    @property
    def state(self) -> MigrationState | None:
        """What the VMI says of this very migration."""
        state = None if self.vmi is None else self.vmi.status.migration_state
        return state if state is not None and state.migration_uid == self.migration.job else None
