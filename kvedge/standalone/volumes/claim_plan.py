"""What to do next for one claim: which volume it gets, or why it waits. Pure.

Called by the claims' loop at each pass. The order and the words are those of Kubernetes' volume binder: first the
volume names the claim, with its UID, then the claim names the volume; a claim that had a volume once and has none any
more is Lost, and never gets another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from kvedge.kube.events import EventType
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.types.core import Node
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.standalone.volumes.claim_sources import is_filled_elsewhere, names_other_namespace, source_kind
from kvedge.standalone.volumes.volume_manifest import wrong_parameters
from kvedge.standalone.volumes.volume_matching import (
    best_match,
    default_class,
    is_for,
    unsuitable,
    waits_for_consumer,
)
from kvedge.standalone.volumes.volume_words import BIND_COMPLETED, PROVISIONER, SELECTED_NODE


class ClaimSeen(Struct, frozen=True):
    """A claim and what there is to bind it to; `node` is this box, None before it is known."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    classes: Sequence[StorageClass]
    node: Node | None


class UseClass(Struct, frozen=True):
    """The claim gets the default class, which was not there when it was made."""

    name: str


class TakeVolume(Struct, frozen=True):
    """The volume is to name the claim."""

    volume: PersistentVolume


class NameVolume(Struct, frozen=True):
    """The claim is to name the volume, and that it was bound."""

    volume: PersistentVolume


class SetStatus(Struct, frozen=True):
    """The claim's phase, and what it was given."""

    phase: str
    volume: PersistentVolume | None = None


class Provision(Struct, frozen=True):
    """A volume of ours is to be made."""

    storage_class: StorageClass


class AskProvisioner(Struct, frozen=True):
    """Somebody else makes volumes of this class: the claim tells who."""

    provisioner: str


class Tell(Struct, frozen=True):
    """An event of the claim."""

    type: EventType
    reason: str
    message: str


ClaimStep: TypeAlias = UseClass | TakeVolume | NameVolume | SetStatus | Provision | AskProvisioner | Tell


def plan_claim(seen: ClaimSeen) -> tuple[ClaimStep, ...]:
    """The next steps for a claim; none when it is bound. A waiting claim says so."""
    claim = seen.claim
    if claim.spec.volume_name:
        return _plan_named(seen)
    if claim.metadata.deletion_timestamp is not None:
        return ()
    name = claim.spec.storage_class_name
    if name is None:
        found = default_class(seen.classes)
        if found is not None:
            return (UseClass(found.metadata.name),)
    storage_class = next((item for item in seen.classes if item.metadata.name == name), None)
    pending = _plan_pending(claim)
    match = best_match(claim, seen.volumes, seen.node)
    if waits_for_consumer(storage_class) and SELECTED_NODE not in claim.metadata.annotations:
        if match is not None and is_for(match, claim):
            return _bind(claim, match)
        text = "waiting for first consumer to be created before binding"
        return (*pending, Tell("Normal", "WaitForFirstConsumer", text))
    if match is not None:
        return _bind(claim, match)
    return (*pending, *_plan_making(claim, storage_class))


def _plan_making(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> tuple[ClaimStep, ...]:
    name = claim.spec.storage_class_name
    if storage_class is None and name:
        return (Tell("Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found'),)
    if storage_class is None:
        text = "no persistent volumes available for this claim and no storage class is set"
        return (Tell("Normal", "FailedBinding", text),)
    if storage_class.provisioner == "kubernetes.io/no-provisioner":
        # Kubernetes' own reason and words, by which `virtctl image-upload` gives up; the rest is the remedy.
        text = (
            f"no volume plugin matched name: {storage_class.provisioner}; make a PersistentVolume of this class for the"
            " claim, or use a class with a provisioner"
        )
        return (Tell("Warning", "ProvisioningFailed", text),)
    if storage_class.provisioner != PROVISIONER:
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{storage_class.provisioner}' or "
            "manually by the system administrator. If volume creation is delayed, please verify that the provisioner "
            "is running and correctly registered."
        )
        return (AskProvisioner(storage_class.provisioner), Tell("Normal", "ExternalProvisioning", text))
    why = wrong_parameters(storage_class)
    if why:
        return (Tell("Warning", "ProvisioningFailed", why),)
    if claim.spec.selector is not None:
        text = "claim.Spec.Selector is not supported: remove spec.selector, or make a volume that it selects"
        return (Tell("Warning", "ProvisioningFailed", text),)
    if is_filled_elsewhere(claim):
        # A populator hands a volume over that it has filled; anything made here would be in its way.
        return (_tell_filler(claim),)
    if names_other_namespace(claim):
        text = (
            "spec.dataSourceRef.namespace: a source in another namespace is not supported: use a DataVolume with "
            "source.pvc, or make the claim there"
        )
        return (Tell("Warning", "ProvisioningFailed", text),)
    return (AskProvisioner(PROVISIONER), Provision(storage_class))


def _tell_filler(claim: PersistentVolumeClaim) -> Tell:
    """Who would fill it; where nobody does, the reason is that of Kubernetes' volume-data-source-validator."""
    group, kind = source_kind(claim)
    if group == CDI_GROUP:
        text = (
            f"spec.dataSourceRef: kvedge has no populator for kind {kind} of {group}: instead of the claim, make a"
            " DataVolume with this source"
        )
        return Tell("Warning", "UnrecognizedDataSourceKind", text)
    return Tell(
        "Normal", "WaitForPopulator", f"waiting for a populator that fills it from kind {kind} of {group or 'v1'}"
    )


def _plan_named(seen: ClaimSeen) -> tuple[ClaimStep, ...]:
    claim, name = seen.claim, seen.claim.spec.volume_name
    volume = next((item for item in seen.volumes if item.metadata.name == name), None)
    if BIND_COMPLETED in claim.metadata.annotations:
        if volume is None:
            text = "Bound claim has lost its PersistentVolume. Any data on this volume is lost!"
            return _plan_lost(claim, "ClaimLost", text)
        if volume.spec.claim_ref is not None and not is_for(volume, claim):
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            return _plan_lost(claim, "ClaimMisbound", text)
        return _bind(claim, volume)
    if claim.metadata.deletion_timestamp is not None:
        return ()
    if volume is None:
        return (*_plan_pending(claim), Tell("Warning", "FailedBinding", f'volume "{name}" not found'))
    if volume.spec.claim_ref is not None and not is_for(volume, claim):
        text = f'volume "{name}" already bound to a different claim.'
        return (*_plan_pending(claim), Tell("Warning", "FailedBinding", text))
    why = unsuitable(volume, claim)
    if why:
        return (
            *_plan_pending(claim),
            Tell("Warning", "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}'),
        )
    return _bind(claim, volume)


def _bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> tuple[ClaimStep, ...]:
    steps: list[ClaimStep] = []
    ref = volume.spec.claim_ref
    if ref is None or ref.uid != claim.metadata.uid:
        steps.append(TakeVolume(volume))
    is_named = claim.spec.volume_name == volume.metadata.name
    if not is_named or BIND_COMPLETED not in claim.metadata.annotations:
        steps.append(NameVolume(volume))
    if claim.status.phase != "Bound":
        steps.append(SetStatus("Bound", volume))
    return tuple(steps)


def _plan_pending(claim: PersistentVolumeClaim) -> tuple[ClaimStep, ...]:
    return () if claim.status.phase == "Pending" else (SetStatus("Pending"),)


def _plan_lost(claim: PersistentVolumeClaim, reason: str, text: str) -> tuple[ClaimStep, ...]:
    if claim.status.phase == "Lost":
        return ()
    return (SetStatus("Lost"), Tell("Warning", reason, text))
