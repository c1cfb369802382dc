"""What becomes of a volume, above all when its data goes."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.volumes.volume_plan import DeleteObject, DropFinalizers, EraseData, SetPhase, plan_volume
from kvedge.standalone.volumes.volume_words import DATA_PROTECTION, VOLUME_PROTECTION
from tests.unit.standalone.volumes.claims import UID, bound_claim, claim, ref, volume


def test_a_volume_without_a_claim_is_available_also_when_it_is_kept_for_one() -> None:
    assert plan_volume(volume(phase="Pending"), None) == (SetPhase("Available"),)
    assert plan_volume(volume(phase="Pending", claimRef=ref("")), claim()) == (SetPhase("Available"),)


def test_a_volume_whose_claim_is_there_is_bound() -> None:
    assert plan_volume(volume(claimRef=ref()), claim()) == (SetPhase("Bound"),)
    assert plan_volume(volume(claimRef=ref(), phase="Bound"), bound_claim()) == ()


def test_a_volume_is_released_before_its_data_is_erased() -> None:
    orphan = volume(claimRef=ref(), phase="Bound", ours=True)
    assert plan_volume(orphan, None) == (SetPhase("Released"),)
    orphan.status.phase = "Released"
    assert plan_volume(orphan, None) == (EraseData(), DeleteObject())


def test_a_new_claim_of_the_same_name_does_not_get_the_data_of_the_old_one() -> None:
    other = claim()
    other.metadata.uid = "another"
    assert plan_volume(volume(claimRef=ref(UID), phase="Bound"), other) == (SetPhase("Released"),)


@pytest.mark.parametrize(
    ("spec", "ours"),
    [
        pytest.param({"persistentVolumeReclaimPolicy": "Retain"}, True, id="of ours, retained"),
        pytest.param({"persistentVolumeReclaimPolicy": "Retain"}, False, id="static, retained"),
        pytest.param({"persistentVolumeReclaimPolicy": "Delete"}, False, id="static, to be deleted"),
    ],
)
def test_data_stays_unless_it_is_ours_and_to_be_deleted(spec: dict[str, Any], ours: bool) -> None:
    released = volume(claimRef=ref(), phase="Released", ours=ours, **spec)
    assert EraseData() not in plan_volume(released, None)
    released.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert EraseData() not in plan_volume(released, None)


def test_the_object_of_a_bound_volume_stays_until_its_claim_is_gone() -> None:
    going = volume(claimRef=ref(), phase="Bound", ours=True)
    going.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    going.metadata.finalizers = [VOLUME_PROTECTION, DATA_PROTECTION]
    assert plan_volume(going, bound_claim()) == ()
    going.status.phase = "Released"
    assert plan_volume(going, None) == (EraseData(), DropFinalizers((VOLUME_PROTECTION, DATA_PROTECTION)))
