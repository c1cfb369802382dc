"""A VolumeSnapshotContent: when its snapshot is taken, and the one case in which data is taken away."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.volumes.snapshot_words import BEING_DELETED
from kvedge.standalone.volumes.snapshots.content_plan import (
    Delete,
    Erase,
    Fail,
    Find,
    Protect,
    Release,
    Take,
    plan_content,
)
from tests.unit.standalone.volumes.snapshots.parts import HANDLE, UID, content, ready_status, snapshot

UNBOUND = {"namespace": "default", "name": "first"}


def given(handle: str, **more: Any) -> Any:
    """A content that somebody has made for a snapshot that is there already."""
    return content(source={"snapshotHandle": handle}, **more)


def test_a_snapshot_is_taken_of_the_volume_for_the_snapshot_that_is_named() -> None:
    assert plan_content(content(), snapshot()) == (Take("pv", UID),)


def test_a_content_is_protected_first() -> None:
    assert plan_content(content(protected=False), snapshot()) == (Protect(),)


@pytest.mark.parametrize(
    "done",
    [content(status=ready_status()), content(notes={BEING_DELETED: "yes"}), content(driver="csi.example.com")],
    ids=["ready", "its snapshot goes", "another driver's"],
)
def test_nothing_is_taken_that_is_not_to_be_taken(done: Any) -> None:
    assert plan_content(done, snapshot()) == ()


def test_a_given_handle_is_looked_for_and_one_that_is_not_ours_is_refused() -> None:
    assert plan_content(given(HANDLE, volumeSnapshotRef=UNBOUND), None) == (Find(HANDLE),)
    for handle in ("vol-123", f"kvedge/{UID}", "kvedge/../snapshot-1", f"/snapshot-{UID}"):
        (step,) = plan_content(given(handle), snapshot())
        assert isinstance(step, Fail)
        assert step.message.startswith("spec.source.snapshotHandle")


def test_a_content_that_was_made_by_hand_for_a_volume_is_refused() -> None:
    (step,) = plan_content(content(volumeSnapshotRef=UNBOUND), None)
    assert isinstance(step, Fail)


def test_data_go_when_content_and_snapshot_go() -> None:
    going = content(going=True)
    assert plan_content(going, snapshot(going=True)) == (Erase(), Release())
    assert plan_content(going, None) == (Erase(), Release())
    assert plan_content(going, snapshot()) == (), "a snapshot that stays keeps its content"


def test_with_retain_data_stay() -> None:
    assert plan_content(content(going=True, deletionPolicy="Retain"), None) == (Release(),)


def test_a_content_whose_snapshot_is_gone_goes_by_its_policy() -> None:
    other = snapshot()
    other.metadata.uid = "another"
    assert plan_content(content(), None) == (Delete(),)
    assert plan_content(content(), other) == (Delete(),)
    assert plan_content(content(deletionPolicy="Retain", status=ready_status()), None) == ()
