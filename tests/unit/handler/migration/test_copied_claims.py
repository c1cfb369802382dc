"""What launchers are told of disks that go to other claims."""

from __future__ import annotations

import pytest

from kvedge.handler.migration.copied_claims import copied_bytes, copied_devices, known_bytes
from kvedge.handler.pod_errors import PodNotReady
from tests.support.migration_world import copying_vmi, moving_vmi


@pytest.mark.parametrize(("mode", "devices"), [("Filesystem", []), ("Block", ["data"])])
def test_a_disk_has_its_size_for_the_guest_and_is_what_its_new_claim_is(mode: str, devices: list[str]) -> None:
    vmi = copying_vmi(mode)
    assert known_bytes(vmi) == copied_bytes(vmi) == {"data": 24 << 20}
    assert copied_devices(vmi) == devices


def test_nothing_is_prepared_for_a_disk_of_unknown_size() -> None:
    vmi = copying_vmi(size=0)
    assert copied_bytes(vmi) == {"data": 0}
    with pytest.raises(PodNotReady, match="size of disk data"):
        known_bytes(vmi)


def test_other_disks_are_not_copied() -> None:
    assert (known_bytes(moving_vmi()), copied_devices(moving_vmi())) == ({}, [])
