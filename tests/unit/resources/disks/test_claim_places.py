"""Where the disk on a claim is in the launcher's Pod."""

from __future__ import annotations

from kvedge.resources.disks import claim_places, volume_facts


def test_the_places_are_kubevirts_and_those_of_all_who_know_volumes() -> None:
    assert claim_places.claim_directory("data") == "/var/run/kubevirt-private/vmi-disks/data"
    assert claim_places.device_path("data") == "/dev/data"
    assert volume_facts.claim_directory is claim_places.claim_directory
    assert volume_facts.device_path is claim_places.device_path
