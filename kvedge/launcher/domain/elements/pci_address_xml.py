"""`<address type='pci'>`: where a user wants a device to sit.

Touches nothing.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add

# Domain, bus, slot and function, as lspci -D prints them.
_ADDRESS: Final = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])")


def add_pci_address(device: Element, address: str, field: str) -> None:
    """The address, when there is one.

    Raises:
        ConversionError: when the text is none.
    """
    if not address:
        return
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConversionError(field, f"{address!r} is no PCI address", "write it as 0000:81:00.0, slot at most 1f")
    domain, bus, slot, function = (f"0x{part.lower()}" for part in match.groups())
    add(device, "address", type="pci", domain=domain, bus=bus, slot=slot, function=function)
