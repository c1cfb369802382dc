"""`<address>` of PCI devices: where a user wants one to sit, and which one of the node's it is.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.values.pci_addresses import pci_parts


def add_pci_address(device: Element, address: str, field: str) -> None:
    """The address, when there is one.

    Raises:
        ConversionError: when the text is none.
    """
    if not address:
        return
    add(device, "address", type="pci", **_attributes(address, field))


def add_host_address(source: Element, address: str, field: str) -> None:
    """The address of a device on the node, which a guest gets.

    Raises:
        ConversionError: when the text is none.
    """
    add(source, "address", **_attributes(address, field))


def _attributes(address: str, field: str) -> dict[str, str]:
    parts = pci_parts(address)
    if parts is None:
        raise ConversionError(field, f"{address!r} is no PCI address", "write it as 0000:81:00.0, slot at most 1f")
    return {name: f"0x{part.lower()}" for name, part in zip(("domain", "bus", "slot", "function"), parts, strict=True)}
