"""Where UEFI's variables are in the guest's address space, and what is read of them."""

from __future__ import annotations

import pytest

from kvedge.launcher.libvirt.flash_reading import FlashPlace, find_flash, read_flash

SIZES = {"/code": 0x1C000, "/vars": 0x4000}
FLASH = "<loader type='pflash'>/code</loader><nvram>/vars</nvram>"


def document(firmware: str, arch: str = "x86_64") -> str:
    return f"<domain><os><type arch='{arch}'>hvm</type>{firmware}</os></domain>"


@pytest.mark.parametrize(
    ("given", "address"),
    [(document(FLASH), (4 << 30) - 0x20000), (document(FLASH, "aarch64"), 64 << 20)],
    ids=["PC", "ARM"],
)
def test_they_are_below_the_code_on_a_pc_and_at_64_mib_on_arm(given: str, address: int) -> None:
    assert find_flash(given, SIZES.__getitem__) == FlashPlace(address, 0x4000, "/vars")


@pytest.mark.parametrize(
    "given",
    [
        document(""),
        document("<loader type='rom'>/code</loader>"),
        document("<loader type='pflash'>/code</loader>"),
        "<domain/>",
    ],
    ids=["a BIOS", "a ROM", "none that last", "no element os"],
)
def test_a_guest_without_variables_in_a_file_has_none(given: str) -> None:
    assert find_flash(given, SIZES.__getitem__) is None


class PlayedQemu:
    """Has memory from one address on, and no piece above a mebibyte."""

    def __init__(self, start: int, content: bytes) -> None:
        self.start, self.content = start, content

    def memoryPeek(self, address: int, length: int, flags: int) -> bytes:
        assert 0 < length <= 1 << 20
        return self.content[address - self.start :][:length]


def test_all_of_them_are_read_in_pieces() -> None:
    content = bytes(40) + b"_FVH" + bytes((3 << 20) - 44)
    assert read_flash(PlayedQemu(512, content), FlashPlace(512, 3 << 20, "/vars")) == content


def test_flash_that_tells_its_status_instead_is_no_variables() -> None:
    assert read_flash(PlayedQemu(0, bytes([0x80]) * 4096), FlashPlace(0, 4096, "/vars")) is None
    assert read_flash(PlayedQemu(0, b""), FlashPlace(0, 65 << 20, "/vars")) is None
