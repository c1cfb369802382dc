"""What becomes of an object whose owners are gone, and of an owner that waits for its dependents.

Decided here, done by `garbage_loop`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from kvedge.standalone.apiserver.requests.deletion_rules import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from kvedge.standalone.apiserver.store.stored import OwnerReference, Stored


class Owner(StrEnum):
    """How an owner is, as its dependent needs to know. UNKNOWN: its kind is not served (yet)."""

    THERE = "there"
    GONE = "gone"
    WAITING = "waiting"
    UNKNOWN = "unknown"


class DeleteDependent(Struct, frozen=True):
    """Delete the dependent; an empty policy lets its finalizers decide."""

    policy: str


class DropReferences(Struct, frozen=True):
    """Take the references to these owners out of the dependent: others still own it."""

    uids: frozenset[str]


class ReleaseOwner(Struct, frozen=True):
    """Take this finalizer off an owner: nothing that it waited for is left."""

    finalizer: str


def plan_dependent(
    references: Sequence[tuple[OwnerReference, Owner]], has_dependents: bool
) -> DeleteDependent | DropReferences | None:
    """Decide about an object with owners."""
    states = [state for _, state in references]
    if not states or Owner.UNKNOWN in states:
        return None
    lost = frozenset(reference.uid for reference, state in references if state is not Owner.THERE)
    if not lost:
        return None
    if Owner.THERE in states:
        return DropReferences(lost)
    # An owner that is deleted in the foreground wants its dependents' dependents gone first, too.
    foreground = Owner.WAITING in states and has_dependents
    return DeleteDependent("Foreground" if foreground else "Background")


def plan_owner(owner: Stored, dependents: Iterable[Stored]) -> ReleaseOwner | None:
    """Decide about an object that is being deleted in the foreground or is to orphan its dependents."""
    finalizers = owner.meta.finalizers or []
    if not owner.meta.deletion_timestamp:
        return None
    if ORPHAN_FINALIZER in finalizers:
        return None if list(dependents) else ReleaseOwner(ORPHAN_FINALIZER)
    if FOREGROUND_FINALIZER not in finalizers:
        return None
    blocked = any(
        reference.uid == owner.meta.uid and reference.block_owner_deletion
        for dependent in dependents
        for reference in dependent.meta.owner_references or ()
    )
    return None if blocked else ReleaseOwner(FOREGROUND_FINALIZER)
