"""The files in which drivers tell a Pod of its claims' devices: found, bounded, and read into types."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.passthrough.claim_metadata import ToldDevice, read_told_device
from kvedge.resources.host_devices.claimed_devices import ClaimedDevice
from kvedge.resources.types.core import PodResourceClaim
from tests.support.claim_metadata import DRIVER, metadata, pci, tell_device

GPU, UUID = "0000:65:00.0", "6ad2a3c8-7d5f-4f3e-9b55-0f8f3a1b2c3d"
CLAIMS = [
    PodResourceClaim(name="made", resource_claim_template_name="a-template"),
    PodResourceClaim(name="there", resource_claim_name="the-claim"),
]
WHOLE = ClaimedDevice("gpus", 0, "g", "there", "whole")
THERE = "resourceclaims/the-claim/whole"


def test_a_claim_is_found_by_its_own_name_and_one_of_a_template_by_its_name_in_the_pod(tmp_path: Path) -> None:
    tell_device(tmp_path, THERE, metadata("whole", pci(GPU)))
    tell_device(tmp_path, "resourceclaimtemplates/made/part", metadata("part", {"mdevUUID": UUID, **pci(GPU)}))
    told = read_told_device(WHOLE, CLAIMS, str(tmp_path))
    assert (told, told.giver) == (ToldDevice(driver=DRIVER, pci_address=GPU), f"the DRA driver {DRIVER}")
    part = ClaimedDevice("gpus", 0, "g", "made", "part")
    assert read_told_device(part, CLAIMS, str(tmp_path)) == ToldDevice(driver=DRIVER, pci_address=GPU, mdev_uuid=UUID)


def test_versions_that_are_not_known_are_left_out_and_the_first_known_one_is_taken(tmp_path: Path) -> None:
    text = metadata("whole", {}, version="v9") + metadata("whole", pci(GPU)) + metadata("whole", pci("0000:01:00.0"))
    tell_device(tmp_path, THERE, text)
    assert read_told_device(WHOLE, CLAIMS, str(tmp_path)).pci_address == GPU


def test_a_request_that_chose_among_several_is_told_with_the_name_of_the_chosen_one(tmp_path: Path) -> None:
    tell_device(tmp_path, THERE, metadata("whole/big", pci(GPU)))
    assert read_told_device(WHOLE, CLAIMS, str(tmp_path)).pci_address == GPU


def test_an_attribute_of_the_drivers_own_domain_is_the_one_without_a_domain(tmp_path: Path) -> None:
    tell_device(tmp_path, THERE, metadata("whole", {f"{DRIVER}/mdevUUID": UUID}))
    assert read_told_device(WHOLE, CLAIMS, str(tmp_path)).mdev_uuid == UUID


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no document of metadata.resource.k8s.io/v1alpha1 but none"),
        ("{", "cannot be read: Expecting property name"),
        ("[" * 100_000, "cannot be read: "),
        ("[]", "no document of .* but None"),
        (metadata("whole", pci(GPU), version="v2"), "but metadata.resource.k8s.io/v2"),
        (metadata("whole", pci(GPU)).replace(f'"{GPU}"', "3"), "cannot be read: Expected `str"),
        (metadata("whole"), "tells of 0 devices"),
        (metadata("other", pci(GPU)), "tells of 0 devices"),
        (metadata("whole", pci(GPU), pci(GPU)), "tells of 2 devices, .*count: 1"),
        (metadata("whole", pci(GPU)) + " " * (256 << 10), "more than 262144 bytes"),
    ],
    ids=["empty", "torn", "deep", "a list", "version", "a type", "none", "other", "two", "large"],
)
def test_what_says_nothing_of_exactly_one_device_is_told_by_field(tmp_path: Path, text: str, words: str) -> None:
    tell_device(tmp_path, THERE, text)
    with pytest.raises(BadRequest, match=words) as refused:
        read_told_device(WHOLE, CLAIMS, str(tmp_path))
    assert str(refused.value).startswith("spec.domain.devices.gpus[0].claimName: request whole of claim there: ")
    assert len(str(refused.value)) < 500


def test_a_driver_that_tells_nothing_is_told_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"no driver has told the Pod of it .*KEP-5304"):
        read_told_device(WHOLE, CLAIMS, str(tmp_path))


def test_two_drivers_have_no_one_device(tmp_path: Path) -> None:
    for driver in ("a", "b"):
        tell_device(tmp_path, THERE, metadata("whole", pci(GPU)), driver)
    with pytest.raises(BadRequest, match="2 drivers have devices of it"):
        read_told_device(WHOLE, CLAIMS, str(tmp_path))


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tell_device(tmp_path, THERE, "")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadRequest, match="it is no file"):
        read_told_device(WHOLE, CLAIMS, str(tmp_path))


@pytest.mark.parametrize(
    "device",
    [
        ClaimedDevice("gpus", 0, "g", "absent", "whole"),
        ClaimedDevice("gpus", 0, "g", "there", "../whole"),
        ClaimedDevice("gpus", 0, "g", "up", "whole"),
    ],
    ids=["claim", "request", "directory"],
)
def test_no_name_leads_elsewhere(tmp_path: Path, device: ClaimedDevice) -> None:
    claims = [*CLAIMS, PodResourceClaim(name="up", resource_claim_name="../..")]
    with pytest.raises(BadRequest, match=r"has no such claim|it is no name"):
        read_told_device(device, claims, str(tmp_path))
