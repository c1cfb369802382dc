"""Addresses of PCI functions, as lspci -D prints them: domain, bus, slot and function.

Called where one is checked, and where one becomes an element of a domain. Pure.
"""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])")


def pci_parts(address: str) -> tuple[str, str, str, str] | None:
    """The four hexadecimal numbers of an address; None when it is none."""
    match = _ADDRESS.fullmatch(address)
    return None if match is None else (match[1], match[2], match[3], match[4])


def is_pci_address(address: str) -> bool:
    """Whether it is one."""
    return pci_parts(address) is not None
