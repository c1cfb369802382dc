"""What the loop of snapshots looks up besides its informers, and only while a snapshot needs it.

Called by `snapshot_loop`. Reads the API server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from kvedge.controller.snapshots.content_plan import copy_names
from kvedge.controller.snapshots.driver_classes import read_classes
from kvedge.controller.snapshots.driver_snapshots import is_of_driver
from kvedge.controller.snapshots.memory.memory_backup import wants_memory
from kvedge.controller.snapshots.snapshot_view import DriverClasses
from kvedge.controller.snapshots.volume_copies import lasting_claims
from kvedge.controller.vm.vm_status import has_changes_to_come
from kvedge.kube.errors import NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.type_finder import TypeFinder, TypeMissing
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.snapshot_names import CLAIM_COPIES, METHOD
from kvedge.resources.disks.state_claims import state_claim_of
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE
from kvedge.resources.types.controller_revision import ControllerRevision
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot, VirtualMachineSnapshotContent
from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


def find_types(client: KubeClient, vm: VirtualMachine) -> dict[str, JsonObject]:
    """What the VM's instance type and preference were when it was made."""
    finder, found = TypeFinder(client), {}
    pairs = (
        (INSTANCETYPE, vm.spec.instancetype, vm.status.instancetype_ref),
        (PREFERENCE, vm.spec.preference, vm.status.preference_ref),
    )
    for part, matcher, ref in pairs:
        if matcher is not None:
            # What is not there cannot be kept: the VM does not start with it, either.
            with contextlib.suppress(TypeMissing):
                found[part.member] = finder.find(part, vm.metadata.namespace, matcher, ref).document
    return found


def find_revision(client: KubeClient, vm: VirtualMachine, vmi: VirtualMachineInstance | None) -> JsonObject | None:
    """What the run was started from, if the VM's spec has something that comes with the next start only."""
    if vmi is None or vmi.is_final or not has_changes_to_come(vm):
        return None
    with contextlib.suppress(NotFound):
        revision = vmi.status.virtual_machine_revision_name
        return client.get(ControllerRevision, vm.metadata.namespace, revision).data
    return None


def find_classes(
    client: KubeClient,
    snapshot: VirtualMachineSnapshot,
    content: VirtualMachineSnapshotContent | None,
    vm: VirtualMachine | None,
    claims: Mapping[str, PersistentVolumeClaim],
) -> DriverClasses:
    """By which classes drivers take snapshots of the VM's claims, as long as that is still to be done."""
    is_begun = content is not None and not is_of_driver(content)
    is_over = snapshot.is_final or bool(snapshot.status.creation_time)
    # Drivers take each disk for itself, and memory would be of yet another moment.
    is_ours = wants_memory(snapshot) or snapshot.metadata.annotations.get(METHOD) == CLAIM_COPIES
    if vm is None or is_begun or is_over or is_ours:
        return DriverClasses()
    named = sorted({*lasting_claims(vm).values(), state_claim_of(vm.metadata)})
    return read_classes(client, [claims[name] for name in named if name in claims])


def find_driver_snapshots(
    informer: Informer[VolumeSnapshot], content: VirtualMachineSnapshotContent | None
) -> Mapping[str, VolumeSnapshot] | None:
    """The VolumeSnapshots of a content that drivers keep; None while it is not known which there are."""
    if content is None or not is_of_driver(content):
        return {}
    if not informer.wait_synced(0):
        return None
    namespace = content.metadata.namespace
    return {name: found for name in copy_names(content) if (found := informer.get(namespace, name))}


def find_unfilled(claims: Informer[PersistentVolumeClaim], content: VirtualMachineSnapshotContent | None) -> list[str]:
    """Claims that are to be made of what a driver keeps for a content, and are not yet: nobody else has their data."""
    if content is None or not is_of_driver(content):
        return []
    kept, namespace = set(copy_names(content)), content.metadata.namespace
    return sorted(
        claim.metadata.name
        for claim in claims.list()
        if claim.metadata.namespace == namespace
        and claim.metadata.deletion_timestamp is None
        and claim.status.phase != "Bound"
        and (source := claim.spec.data_source) is not None
        and source.get("kind") == VolumeSnapshot.KIND.kind
        and source.get("name") in kept
    )
