"""A guest on UEFI with a TPM that keeps marks in both, and on its disk, as tests make and look at them."""

from __future__ import annotations

from typing import Any, Final

from kvedge.resources.codec import JsonObject
from tests.support.hotplug_guest import HotplugGuest, hotplug_vm

NAME: Final = "sealed"
VARIABLE = "/sys/firmware/efi/efivars/Kv%s-3f2a6cf0-8d59-4d3c-9d6c-6b7665646765"
# TPM2_NV_ReadPublic of the place 0x0150000N: response code 0 when it is there.
READ = (
    r"exec 3<>/dev/tpm0; printf '\200\001\000\000\000\016\000\000\001\151\001\120\000\04%d' >&3;"
    r" dd bs=4096 count=1 <&3 2>/dev/null | od -An -tx1 -j6 -N4 | tr -d ' \n'"
)
# TPM2_NV_DefineSpace of it.
DEFINE = (
    r"exec 3<>/dev/tpm0; printf '\200\002\000\000\000\055\000\000\001\052\100\000\000\001\000\000\000\011\100\000"
    r"\000\011\000\000\000\000\000\000\000\000\016\001\120\000\04%d\000\013\000\006\000\006\000\000\000\010' >&3;"
    r" dd bs=4096 count=1 <&3 2>/dev/null | od -An -tx1 -j6 -N4 | tr -d ' \n'"
)
THERE = "00000000"
MARKS = (0, 1, 2)


def sealed_vm(image: str) -> JsonObject:
    """The VM, with a disk on the claim `data`."""
    made = hotplug_vm(NAME, image, "data")
    spec: Any = made["spec"]["template"]["spec"]
    spec["domain"]["memory"] = {"guest": "256Mi"}
    spec["domain"]["firmware"] = {"bootloader": {"efi": {"secureBoot": False, "persistent": True}}}
    spec["domain"]["devices"]["disks"][0]["bootOrder"] = 1
    spec["domain"]["devices"]["tpm"] = {"persistent": True}
    return made


def mark(guest: HotplugGuest, number: int) -> None:
    """Have the guest keep a mark in its TPM, its UEFI variables and on its disk, one after the other."""
    assert guest.run(DEFINE % number) == THERE
    assert guest.run(rf"printf '\7\0\0\0kvedge' >{VARIABLE % number}; echo $?") == "0\n"
    said = guest.run(f"printf k | dd of={guest.disk('data')} bs=512 seek={number} conv=fsync 2>/dev/null; echo $?")
    assert said == "0\n"


def marks(guest: HotplugGuest) -> tuple[list[int], list[int], list[int]]:
    """The marks in the TPM, in the variables of UEFI, and on the disk."""
    disk = guest.disk("data")
    return (
        [each for each in MARKS if guest.run(READ % each) == THERE],
        [each for each in MARKS if guest.run(f"ls {VARIABLE % each} 2>/dev/null | wc -l") == "1\n"],
        [
            each
            for each in MARKS
            if guest.run(f"dd if={disk} bs=512 skip={each} count=1 2>/dev/null | head -c 1") == "k"
        ],
    )


def alike(*numbers: int) -> tuple[list[int], list[int], list[int]]:
    """These marks in all three."""
    return list(numbers), list(numbers), list(numbers)
