"""What becomes of objects whose owners are gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.loops.garbage_plan import (
    DeleteDependent,
    DropReferences,
    Owner,
    ReleaseOwner,
    plan_dependent,
    plan_owner,
)
from kvedge.standalone.apiserver.store.stored import OwnerReference
from tests.unit.standalone.apiserver.stored_objects import stored


def owners(*states: Owner) -> list[tuple[OwnerReference, Owner]]:
    """References to owners in these states; the n-th has the UID `un`."""
    return [(OwnerReference("v1", "Widget", f"o{number}", f"u{number}"), state) for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), None),
        ((Owner.THERE,), None),
        ((Owner.GONE,), DeleteDependent("Background")),
        ((Owner.GONE, Owner.GONE), DeleteDependent("Background")),
        ((Owner.GONE, Owner.THERE), DropReferences(frozenset({"u0"}))),
        ((Owner.WAITING, Owner.THERE), DropReferences(frozenset({"u0"}))),
        ((Owner.GONE, Owner.UNKNOWN), None),
        ((Owner.WAITING,), DeleteDependent("Background")),
    ],
    ids=[
        "no owner",
        "owner there",
        "owner gone",
        "all gone",
        "one left",
        "one waits, one left",
        "one of an unknown kind",
        "owner waits",
    ],
)
def test_a_dependent(states: tuple[Owner, ...], expected: object) -> None:
    assert plan_dependent(owners(*states), has_dependents=False) == expected


def test_below_a_waiting_owner_the_deepest_go_first() -> None:
    assert plan_dependent(owners(Owner.WAITING), has_dependents=True) == DeleteDependent("Foreground")
    assert plan_dependent(owners(Owner.GONE), has_dependents=True) == DeleteDependent("Background")


@given(st.lists(st.sampled_from(Owner), max_size=5), st.booleans())
def test_nothing_is_deleted_while_an_owner_is_there_or_unknown(states: list[Owner], has_dependents: bool) -> None:
    plan = plan_dependent(owners(*states), has_dependents)
    if Owner.THERE in states or Owner.UNKNOWN in states:
        assert not isinstance(plan, DeleteDependent)


def test_an_owner_waits_only_for_those_that_block_it() -> None:
    owner = stored("o", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]})
    reference = {"apiVersion": "v1", "kind": "Widget", "name": "o", "uid": "uid-o"}
    loose = stored("a", metadata={"ownerReferences": [reference]})
    blocking = stored("b", metadata={"ownerReferences": [{**reference, "blockOwnerDeletion": True}]})
    assert plan_owner(owner, [loose, blocking]) is None
    assert plan_owner(owner, [loose]) == ReleaseOwner("foregroundDeletion")


def test_an_owner_that_orphans_waits_until_nobody_names_it() -> None:
    owner = stored("o", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]})
    assert plan_owner(owner, [stored("a")]) is None
    assert plan_owner(owner, []) == ReleaseOwner("orphan")


def test_an_owner_that_is_not_being_deleted_is_left_alone() -> None:
    assert plan_owner(stored("o", metadata={"finalizers": ["foregroundDeletion"]}), []) is None
