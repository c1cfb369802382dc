"""What the plan of a VM can say: the actions that its loop carries out, in their order.

Made by `vm_plan`, done by `vm_loop` and its helpers. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from msgspec import Struct, field

from kvedge.controller.vm.claim_changes import ClaimSights
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance


class PatchVm(Struct, frozen=True):
    """Change the VM itself; `body` is a merge patch for the version that was read."""

    body: JsonObject


class PutBack(Struct, frozen=True):
    """Have the VM name the claims again that have its data; `body` is a merge patch for the version that was read."""

    body: JsonObject


class PatchVmStatus(Struct, frozen=True):
    """Change the VM's status; `body` is a merge patch for the version that was read."""

    body: JsonObject


class CreateVmi(Struct, frozen=True):
    """Start a run."""

    vmi: VirtualMachineInstance


class KeepRevision(Struct, frozen=True):
    """Keep the spec that the run started from, and drop the one of this name from the run before; "" for none."""

    revision: ControllerRevision
    superseded: str


class PatchVmi(Struct, frozen=True):
    """Change finalizers, owners or exchanged claims of a VMI, in the version that was read."""

    vmi: VirtualMachineInstance
    body: JsonObject


class AdoptVmi(Struct, frozen=True):
    """Become the owner of a VMI without one, once the server has confirmed that the VM exists and stays."""

    vmi: VirtualMachineInstance
    body: JsonObject


class DeleteVmi(Struct, frozen=True):
    """End a run, gracefully."""

    vmi: VirtualMachineInstance


class AnnotateClaim(Struct, frozen=True):
    """Say of a claim which dump of the guest's memory is in it."""

    claim: PersistentVolumeClaim
    value: str


class Live(Enum):
    """The parts of a VM that reach its running guest; the value is the reason in condition and event when the server
    refuses the change."""

    VOLUMES = "HotPlugVolumeError"
    INTERFACES = "HotPlugNetworkInterfaceError"
    MEMORY_DUMP = "MemoryDumpError"
    CPUS = "HotPlugCPUError"
    PLACEMENT = "AffinityChangeError"
    MEMORY = "HotPlugMemoryError"
    BACKUPS = "BackupHooksError"
    # The other way round: the VM is to say with which machine its guest runs.
    MACHINE = "MachineMarksError"


class ChangeRun(Struct, frozen=True):
    """Carry a change of the VM to its run, in the version that was read."""

    vmi: VirtualMachineInstance
    body: JsonObject
    what: Live = Live.VOLUMES


class NoteMachine(Struct, frozen=True):
    """Have the VM say with which machine its guest runs; `body` is a merge patch for the version that was read."""

    body: JsonObject


VmAction: TypeAlias = (
    PatchVm
    | NoteMachine
    | PutBack
    | PatchVmStatus
    | CreateVmi
    | KeepRevision
    | PatchVmi
    | AdoptVmi
    | DeleteVmi
    | ChangeRun
    | AnnotateClaim
)


class Rollout(Struct, frozen=True):
    """Whether changes of the template reach the running guest, by how much CPUs are allocated more than once, whether
    there is one node, and whether guests that wait for another Pod are migrated to one.

    The handlers on `other_nodes` are of another release than this controller. Before Pods grew with their guests,
    handlers gave a guest all that its VMI says: such a node is upgraded before guests there get CPUs or memory.
    """

    is_live: bool = False
    cpu_ratio: int = 10
    is_alone: bool = False
    migrates: bool = False
    other_nodes: frozenset[str] = frozenset()
    # The KubeVirt object itself says that changes are live: VMs of any age have room then.
    is_said: bool = False


class Hotplug(Struct, frozen=True):
    """Whether changed volumes reach the running guest, and the messages of refusals that wait for another try.

    `plugins` are the network binding plugins whose NICs reach it, `claims` what is known of claims that volumes get,
    `rollout` is what of the template reaches it, `dump_claim` is the claim that a dump of its memory goes into, None
    when it is not there.
    """

    is_on: bool = True
    refusals: Mapping[Live, str] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()
    claims: ClaimSights = field(default_factory=ClaimSights)
    dump_claim: PersistentVolumeClaim | None = None
    rollout: Rollout = Rollout()


class VmPlan(Struct, frozen=True):
    """Actions in order, and in how many seconds to look again when nothing changes."""

    actions: tuple[VmAction, ...] = ()
    again_after: float | None = None
