"""What becomes of an eviction of a launcher Pod, or of an attachment Pod of its volumes; codes and words as KubeVirt's.

Called by eviction_admission.py. Pure: the Pod and its VMI, as the server has them now, go in. Drain tools try again
after a refusal with 429, and stop at any other. A refusal's text is what `kubectl drain` prints, and the descheduler
looks for "Eviction triggered evacuation".
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.evacuation import (
    EXTERNAL,
    LIVE_MIGRATE,
    LIVE_MIGRATE_IF_POSSIBLE,
    is_migratable,
    strategy_of,
)
from kvedge.resources.moves.disk_moves import leaves_with_disks
from kvedge.resources.moves.workload_updates import changes_volumes
from kvedge.resources.names import APP, DOMAIN, LAUNCHER_APP
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance

# The descheduler says on its evictions that they are its own.
_REQUESTED_BY: Final = "requested-by"
_DESCHEDULER: Final = "sigs.k8s.io/descheduler"


class Allow(Struct, frozen=True):
    """The eviction goes on: the Pod is ended, and its guest shuts down with it."""


class Deny(Struct, frozen=True):
    """The Pod stays for now."""

    message: str


class Mark(Struct, frozen=True):
    """The VMI is marked, for its guest to leave `node`; the Pod stays until it has."""

    node: str
    message: str


Answer: TypeAlias = Allow | Deny | Mark


def is_attachment(pod: Pod) -> bool:
    """Whether the Pod brings a guest a volume; its one owner is the launcher."""
    return pod.metadata.labels.get(APP) == ATTACHMENT_APP and len(pod.metadata.owner_references) == 1


def vmi_of_launcher(pod: Pod) -> str:
    """The name of the VMI whose guest may run in the Pod; empty for any other Pod, and for one that has ended.

    A Pod with a launcher's label that no VMI owns has no guest: nobody would move it, and a drain would wait for ever.
    """
    owner, kind = pod.metadata.controller_reference(), VirtualMachineInstance.KIND
    is_owned = owner is not None and owner.kind == kind.kind and owner.api_version.startswith(f"{kind.group}/")
    if pod.metadata.labels.get(APP) != LAUNCHER_APP or not is_owned or pod.status.phase in FINAL_POD_PHASES:
        return ""
    return pod.metadata.annotations.get(DOMAIN, "")


def judge_attachment(pod: Pod, vmi: str) -> Deny:
    """An attachment Pod goes with the guest that has its volume, never before."""
    where = f"associated with running vmi: {vmi} in namespace {pod.metadata.namespace}"
    return Deny(f"cannot evict hotplug pod: {pod.metadata.name} {where}")


def needs_a_node(vmi: VirtualMachineInstance, default: str) -> bool:
    """Whether the guest would be moved by kvedge, which takes another node."""
    strategy = strategy_of(vmi, default)
    return strategy in (LIVE_MIGRATE, LIVE_MIGRATE_IF_POSSIBLE) and _can_leave(vmi, strategy)


def judge_launcher(pod: Pod, vmi: VirtualMachineInstance, default: str, *, is_only_node: bool = False) -> Answer:
    """What an eviction of a launcher comes to.

    `default` is the strategy of VMIs that name none. `is_only_node`: there is no other node to go to.
    """
    meta = vmi.metadata
    owner = pod.metadata.controller_reference()
    if owner is None or owner.uid != meta.uid:
        # To mark another run for it would move the wrong guest.
        return fail_to_get(f"pod {pod.metadata.name} is of another run than the present one of {meta.name}")
    strategy = strategy_of(vmi, default)
    if strategy == LIVE_MIGRATE and not _can_leave(vmi, strategy):
        return Deny(f"VMI {meta.name} is configured with an eviction strategy but is not live-migratable")
    if strategy == LIVE_MIGRATE_IF_POSSIBLE and not _can_leave(vmi, strategy):
        return Allow()
    if strategy not in (LIVE_MIGRATE, LIVE_MIGRATE_IF_POSSIBLE, EXTERNAL):
        return Allow()
    if is_only_node and needs_a_node(vmi, default):
        if strategy == LIVE_MIGRATE_IF_POSSIBLE:
            return Allow()
        return Deny(f"VMI {meta.name} is configured with an eviction strategy but has no other node to go to")
    along = ", with its disks" if leaves_with_disks(vmi, strategy) or changes_volumes(vmi) else ""
    triggered = f'Eviction triggered evacuation of VMI "{meta.namespace}/{meta.name}"{along}'
    # A mark of another node than the guest's has nobody act on it.
    if vmi.status.evacuation_node_name and vmi.status.evacuation_node_name == vmi.status.node_name:
        return Deny(f"Evacuation in progress: {triggered}")
    if vmi.status.node_name != pod.spec.node_name:
        return Deny("Eviction request for target Pod")
    return Mark(pod.spec.node_name, triggered)


def _can_leave(vmi: VirtualMachineInstance, strategy: str) -> bool:
    """Whether the guest can move, with its disks if need be.

    One whose disks are to get other claims is about to: ended now, its VM would need somebody to put its claims right.
    """
    return is_migratable(vmi) or changes_volumes(vmi) or leaves_with_disks(vmi, strategy)


def fail_to_get(why: str) -> Deny:
    """Nobody knows what the VMI wants: a guest that may be moved is not shut down."""
    return Deny(f"kubevirt failed getting the vmi: {why}")


def is_dry_run(eviction: JsonObject, *, asked: bool) -> bool:
    """Whether nothing may be changed: `asked` of the whole request, or the eviction's own options say so."""
    options = eviction.get("deleteOptions")
    dry_run = options.get("dryRun") if isinstance(options, dict) else None
    return asked or (isinstance(dry_run, list) and dry_run[:1] == ["All"])


def is_by_descheduler(eviction: JsonObject) -> bool:
    """Whether the descheduler evicts: moves of its kind wait for all others."""
    metadata = eviction.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(_REQUESTED_BY) == _DESCHEDULER
