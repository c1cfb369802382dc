"""What is promised of a place, and when its room is told to run out."""

from __future__ import annotations

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolume
from kvedge.standalone.volumes.space_plan import (
    fullness,
    orphan_snapshots,
    orphans,
    orphans_message,
    refusal,
    space_condition,
    space_message,
    space_reason,
)
from kvedge.storage.volumes.volume_driver import PlaceSpace
from tests.support.builders import NOW
from tests.unit.standalone.volumes.snapshots.parts import content

GIB = 1 << 30


@pytest.mark.parametrize(
    ("promised", "wanted", "overcommit", "fits"),
    [
        pytest.param(0, 30, 100, True, id="all that there is"),
        pytest.param(0, 31, 100, False, id="more than there is"),
        pytest.param(20, 11, 100, False, id="beside what is promised"),
        pytest.param(50, 10, 200, True, id="over-committed"),
        pytest.param(50, 11, 200, False, id="beyond the over-commitment"),
    ],
)
def test_a_place_promises_what_it_can_hold_times_the_over_commitment(
    promised: int, wanted: int, overcommit: int, fits: bool
) -> None:
    space = PlaceSpace(total=100 * GIB, free=20 * GIB, held=10 * GIB)
    why = refusal("kvedge", space, promised * GIB, wanted * GIB, overcommit)
    assert (why == "") is fits
    assert fits or "raise the setting volume-overcommit" in why


@pytest.mark.parametrize(
    ("free", "reason"),
    [
        (16, ""),
        (15, "VolumeSpaceLow"),
        (6, "VolumeSpaceLow"),
        (5, "VolumeSpaceAlmostUsedUp"),
        (0, "VolumeSpaceAlmostUsedUp"),
    ],
)
def test_the_node_warns_at_85_and_at_95_percent(free: int, reason: str) -> None:
    space = PlaceSpace(100 * GIB, free * GIB, 0)
    assert space_reason(fullness(space)) == reason
    condition = space_condition({"kvedge": space}, {}, {}, NOW)
    assert condition["status"] == ("True" if reason else "False")
    assert condition["reason"] == (reason or "VolumeSpaceFree")
    if reason:
        assert condition["message"] == space_message("kvedge", space)


def test_the_condition_keeps_the_moment_at_which_it_turned() -> None:
    space = PlaceSpace(100, 1, 0)
    known = {"status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    assert space_condition({"kvedge": space}, {}, known, NOW)["lastTransitionTime"] == "2020-01-01T00:00:00Z"


def test_a_place_whose_room_cannot_be_seen_is_not_told_to_have_room() -> None:
    lost = {"fast": "thin pool ssd/thin is damaged (metadata_read_only)"}
    condition = space_condition({"kvedge": PlaceSpace(100, 90, 0)}, lost, {}, NOW)
    assert (condition["status"], condition["reason"]) == ("Unknown", "PlaceMissing")
    assert 'place "fast" for volumes: thin pool ssd/thin is damaged' in str(condition["message"])
    both = space_condition({"kvedge": PlaceSpace(100, 1, 0)}, lost, {}, NOW)
    assert (both["status"], both["reason"]) == ("True", "VolumeSpaceAlmostUsedUp")
    assert 'place "kvedge"' in str(both["message"])
    assert "is damaged" in str(both["message"])


def volume(name: str, **source: object) -> PersistentVolume:
    return decode(PersistentVolume, {"metadata": {"name": name}, "spec": source})


def test_a_volume_that_no_object_is_made_of_is_told() -> None:
    uids = [f"11111111-1111-4111-8111-11111111111{n}" for n in range(4)]
    known = [
        volume(f"pvc-{uids[0]}"),
        volume("kept", local={"path": f"/var/lib/kvedge/volumes/{uids[1]}"}),
        volume("old", hostPath={"path": f"/var/lib/kvedge/volumes/{uids[2]}/disk"}),
    ]
    assert orphans([*uids, "photos", "lost+found"], known) == {uids[3]}
    assert "no object is made of: a; " in orphans_message("kvedge", ["a"])
    assert ", e and 2 more; " in orphans_message("kvedge", list("abcdefg"))


def test_a_snapshot_that_no_content_names_nor_is_about_to_is_told() -> None:
    uids = [f"11111111-1111-4111-8111-11111111111{n}" for n in range(4)]
    names = [f"snapshot-{uid}" for uid in uids]
    known = [
        content(volumeSnapshotRef={"namespace": "default", "name": "coming", "uid": uids[0]}),
        content(status={"snapshotHandle": f"kvedge/{names[1]}"}),
        content(status={"snapshotHandle": f"elsewhere/{names[2]}"}),
    ]
    assert orphan_snapshots("kvedge", [*names, *uids, "snapshot-1"], known) == {names[2], names[3]}


def test_a_pool_whose_metadata_fill_up_is_told_as_such() -> None:
    space = PlaceSpace(total=100 * GIB, free=80 * GIB, held=20 * GIB, index_percent=96)
    assert (fullness(space), space_reason(fullness(space))) == (96, "VolumeSpaceAlmostUsedUp")
    assert 'the metadata of place "fast" for volumes are 96 % full' in space_message("fast", space)
    assert "lvextend --poolmetadatasize" in space_message("fast", space)
    assert "metadata" not in space_message("fast", PlaceSpace(100 * GIB, 4 * GIB, 0, index_percent=20))
