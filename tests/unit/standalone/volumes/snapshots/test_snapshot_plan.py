# Tests: kvedge/standalone/volumes/snapshots/snapshot_plan.py
# Tests: kvedge/standalone/volumes/snapshots/snapshot_manifest.py
"""A VolumeSnapshot on its way to its content, what keeps it, and what it says when it cannot be taken."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.volumes.snapshot_words import AS_SOURCE, BEING_DELETED, BOUND, CONTENT_BOUND
from kvedge.standalone.volumes.snapshots.snapshot_plan import (
    BindContent,
    CreateContent,
    DeleteContent,
    Fail,
    MarkContent,
    Protect,
    ProtectClaim,
    Release,
    SetStatus,
    SnapshotSeen,
    SnapshotStep,
    Tell,
    UseClass,
    plan_snapshot,
)
from tests.unit.standalone.volumes.claims import bound_claim, claim, ref, volume
from tests.unit.standalone.volumes.snapshots.parts import (
    CONTENT,
    UID,
    content,
    ready_status,
    snapshot,
    snapshot_class,
)

READY = {
    "boundVolumeSnapshotContentName": CONTENT,
    "readyToUse": True,
    "creationTime": "2026-01-01T00:00:00Z",
    "restoreSize": "1Gi",
}
GIVEN = {"source": {"volumeSnapshotContentName": "kept"}}


def seen(**more: Any) -> SnapshotSeen:
    """A snapshot of a bound claim of ours, of which nothing is done yet."""
    known = {
        "snapshot": snapshot(),
        "content": None,
        "claim": bound_claim(),
        "volume": volume(ours=True, claimRef=ref()),
        "classes": [snapshot_class()],
        **more,
    }
    return SnapshotSeen(**known)


def kinds(steps: tuple[SnapshotStep, ...]) -> list[type]:
    return [type(step) for step in steps]


def failure(**more: Any) -> str:
    """What a snapshot says is wrong."""
    (step,) = plan_snapshot(seen(**more))
    assert isinstance(step, Fail)
    return step.message


def test_a_snapshot_is_protected_before_anything_is_made_for_it() -> None:
    assert plan_snapshot(seen(snapshot=snapshot(protected=False))) == (Protect((AS_SOURCE, BOUND)),)


def test_a_snapshot_gets_the_default_class_and_a_content_that_names_it_and_its_volume() -> None:
    steps = plan_snapshot(seen())
    assert kinds(steps) == [UseClass, ProtectClaim, CreateContent, Tell]
    made = next(step.content for step in steps if isinstance(step, CreateContent))
    assert (made.metadata.name, made.metadata.finalizers) == (CONTENT, [CONTENT_BOUND])
    assert (made.spec.volume_snapshot_ref.uid, made.spec.source.volume_handle) == (UID, "pv")
    assert (made.spec.deletion_policy, made.spec.source_volume_mode) == ("Delete", "Filesystem")


def test_a_named_class_says_what_becomes_of_the_data() -> None:
    keeping = snapshot_class("keeping", default=False, deletionPolicy="Retain")
    steps = plan_snapshot(seen(snapshot=snapshot(volumeSnapshotClassName="keeping"), classes=[keeping]))
    made = next(step.content for step in steps if isinstance(step, CreateContent))
    assert (made.spec.deletion_policy, made.spec.volume_snapshot_class_name) == ("Retain", "keeping")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"claim": None}, "claim default/data is not there"),
        ({"claim": claim(), "volume": None}, "claim default/data is not yet bound to a volume"),
        ({"volume": volume(claimRef=ref())}, "a volume that kvedge.io/box has not made"),
        ({"classes": []}, "cannot find default snapshot class"),
        ({"classes": [snapshot_class("a"), snapshot_class("b")]}, "2 default snapshot classes were found (a, b)"),
        ({"snapshot": snapshot(volumeSnapshotClassName="x")}, '"x" not found'),
        (
            {"snapshot": snapshot(volumeSnapshotClassName="x"), "classes": [snapshot_class("x", driver="other")]},
            "is of driver other, which this box has not got",
        ),
        ({"classes": [snapshot_class(parameters={"fast": "yes"})]}, "parameters.fast: there are none"),
    ],
)
def test_what_cannot_be_taken_is_told(more: dict[str, Any], text: str) -> None:
    assert text in failure(**more)


def test_a_class_of_another_driver_is_no_default_of_ours() -> None:
    others = [snapshot_class("other", driver="csi.example.com"), snapshot_class()]
    assert plan_snapshot(seen(classes=others))[0] == UseClass("kvedge")


def test_what_the_content_says_is_the_snapshots_status() -> None:
    (status, *told) = plan_snapshot(seen(content=content(status=ready_status())))
    assert status == SetStatus({**READY, "error": None})
    assert [step.reason for step in told if isinstance(step, Tell)] == ["SnapshotCreated", "SnapshotReady"]
    assert plan_snapshot(seen(snapshot=snapshot(status=READY), content=content(status=ready_status()))) == ()


def test_an_error_of_the_content_is_shown() -> None:
    error = {"time": "2026-01-01T00:00:00Z", "message": "VM web writes this volume"}
    (status,) = plan_snapshot(seen(content=content(status={"readyToUse": False, "error": error})))
    assert isinstance(status, SetStatus)
    assert (status.change["error"], status.change["readyToUse"]) == (error, False)


def test_a_ready_snapshot_whose_content_is_gone_is_not_taken_anew() -> None:
    assert "is lost" in failure(snapshot=snapshot(status=READY))


def test_a_content_of_another_snapshot_of_the_same_name_does_not_count() -> None:
    other = content(volumeSnapshotRef={"namespace": "default", "name": "first", "uid": "other"})
    assert "is bound to a different snapshot" in failure(content=other)


def test_a_given_content_that_names_the_snapshot_is_bound_to_it() -> None:
    given = content(source={"snapshotHandle": "h"}, volumeSnapshotRef={"namespace": "default", "name": "first"})
    assert plan_snapshot(seen(snapshot=snapshot(**GIVEN), content=given)) == (BindContent(given),)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "VolumeSnapshotContent is missing"),
        (content(volumeSnapshotRef={"namespace": "other", "name": "first"}), "is bound to a different snapshot"),
        (content(), "was made for a claim"),
    ],
    ids=["missing", "of another namespace", "dynamic"],
)
def test_a_given_content_that_is_not_the_snapshots_is_told(given: Any, text: str) -> None:
    assert text in failure(snapshot=snapshot(**GIVEN), content=given)


def test_a_snapshot_that_goes_has_its_content_deleted_and_waits_for_that() -> None:
    going = snapshot(going=True)
    assert kinds(plan_snapshot(seen(snapshot=going, content=content()))) == [MarkContent, DeleteContent]
    marked = content(going=True, notes={BEING_DELETED: "yes"})
    assert plan_snapshot(seen(snapshot=going, content=marked)) == ()
    assert plan_snapshot(seen(snapshot=going, content=None)) == (Release((AS_SOURCE, BOUND)),)


def test_with_retain_the_content_stays() -> None:
    kept = content(deletionPolicy="Retain")
    assert kinds(plan_snapshot(seen(snapshot=snapshot(going=True), content=kept))) == [MarkContent, Release]


def test_a_snapshot_stays_while_a_claim_is_made_of_it() -> None:
    (told,) = plan_snapshot(seen(snapshot=snapshot(going=True), content=content(), restoring=["back"]))
    assert isinstance(told, Tell)
    assert (told.reason, told.message) == ("SnapshotDeletePending", "Snapshot is being used to restore a PVC: back")


def test_a_content_of_another_snapshot_stays_when_a_snapshot_goes() -> None:
    other = content(volumeSnapshotRef={"namespace": "default", "name": "first", "uid": "other"})
    assert kinds(plan_snapshot(seen(snapshot=snapshot(going=True), content=other))) == [Release]
