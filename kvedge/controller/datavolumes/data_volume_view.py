"""What is seen of one DataVolume, and what is to be done about it: the values between the loop and the plans.

Filled in by data_volume_loop.py, which also carries the actions out. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct, field

from kvedge.controller.datavolumes.claim_plan import ClaimProblem, StorageSeen
from kvedge.controller.datavolumes.data_volume_status import Told
from kvedge.controller.datavolumes.remote_clone_plan import SenderAction
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance


class CreateClaim(Struct, frozen=True):
    """Make the claim."""

    claim: PersistentVolumeClaim


class PatchClaim(Struct, frozen=True):
    """Change the claim; `body` is a merge patch for the version that was read."""

    claim: PersistentVolumeClaim
    body: JsonObject


class CreateWorker(Struct, frozen=True):
    """Start a worker; `upload` needs a certificate first."""

    claim: PersistentVolumeClaim
    pod: Pod
    upload: bool


class DeleteWorker(Struct, frozen=True):
    """End a worker, or take away one that has ended."""

    pod: Pod


class PatchStatus(Struct, frozen=True):
    """Change the status; `body` is a merge patch for the version that was read."""

    body: JsonObject


class LabelDataVolume(Struct, frozen=True):
    """Give the DataVolume these labels."""

    labels: dict[str, str]


Action: TypeAlias = (
    CreateClaim | PatchClaim | CreateWorker | DeleteWorker | PatchStatus | LabelDataVolume | SenderAction
)


class DataVolumePlan(Struct, frozen=True):
    """Actions in order, events, and in how many seconds to look again when nothing changes."""

    actions: tuple[Action, ...] = ()
    told: tuple[Told, ...] = ()
    again_after: float | None = None


class SourceSeen(Struct, frozen=True):
    """What a clone copies: the claim, or why it cannot be had (a reason and a text), and who writes it.

    A snapshot is named instead of the claim, and `like` is what a claim must be to be made of it.
    """

    claim: PersistentVolumeClaim | None = None
    problem: ClaimProblem | None = None
    writer: str = ""
    snapshot: str = ""
    like: PersistentVolumeClaim | None = None

    @property
    def model(self) -> PersistentVolumeClaim | None:
        """By what size and labels go."""
        return self.claim or self.like


class DataVolumeView(Struct):
    """A DataVolume, the claim of its name, its own workers, the guest that waits for the claim, and the storage there
    is. `refused` is why the claim or the worker could not be made, at the last attempt."""

    dv: DataVolume
    claim: PersistentVolumeClaim | None = None
    workers: Sequence[Pod] = ()
    consumer: VirtualMachineInstance | None = None
    source: SourceSeen | None = None
    storage: StorageSeen = field(default_factory=StorageSeen)
    progress: str = ""
    refused: ClaimProblem | None = None
    # What sends a claim of another namespace to the worker.
    senders: Sequence[Pod] = ()
