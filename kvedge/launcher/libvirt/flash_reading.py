"""The variables of UEFI as QEMU has them in its flash, and the file that they lie in.

Part of the door to libvirt; used by the session. QEMU maps the flash of variables right below that of the firmware's
code, which ends at 4 GiB; on ARM the two begin at 0 and at 64 MiB.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_ARM_BASE: Final = 64 << 20
_PC_END: Final = 4 << 30
# libvirt's VIR_MEMORY_PHYSICAL; without libvirt itself this can be tried anywhere.
_PHYSICAL: Final = 2
_MOST: Final = 64 << 20
_PIECE: Final = 1 << 20
# Of the header of a firmware volume: where its signature is.
_SIGNATURE_AT: Final = 40
_SIGNATURE: Final = b"_FVH"


class FlashPlace(NamedTuple):
    """Where in the guest's address space the variables are, how many bytes they have, and the path of their file."""

    address: int
    size: int
    path: str


def find_flash(document: str, size_of: Callable[[str], int] = os.path.getsize) -> FlashPlace | None:
    """The place by the running domain's document; None for a guest without variables that are in a file.

    Raises:
        OSError: when the file of code or variables is not there.
    """
    os_element = ElementTree.fromstring(document).find("os")
    loader = None if os_element is None else os_element.find("loader")
    nvram = None if os_element is None else os_element.findtext("nvram")
    if os_element is None or loader is None or loader.get("type") != "pflash" or not nvram or not loader.text:
        return None
    size, kind = size_of(nvram), os_element.find("type")
    if kind is not None and kind.get("arch") == "aarch64":
        return FlashPlace(_ARM_BASE, size, nvram)
    return FlashPlace(_PC_END - size_of(loader.text) - size, size, nvram)


def read_flash(domain: Any, place: FlashPlace) -> bytes | None:
    """All of the variables; None when QEMU does not show them, as the guest was about to write them when it stopped."""
    if not 0 < place.size <= _MOST:
        return None
    read = bytearray()
    while len(read) < place.size:
        length = min(_PIECE, place.size - len(read))
        read += domain.memoryPeek(place.address + len(read), length, _PHYSICAL)
    is_shown = read[_SIGNATURE_AT : _SIGNATURE_AT + len(_SIGNATURE)] == _SIGNATURE
    return bytes(read) if is_shown else None
