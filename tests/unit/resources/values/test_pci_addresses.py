"""Addresses of PCI functions."""

from __future__ import annotations

import pytest

from kvedge.resources.values.pci_addresses import is_pci_address, pci_parts


def test_an_address_has_four_numbers() -> None:
    assert pci_parts("0000:fA:1f.7") == ("0000", "fA", "1f", "7")


@pytest.mark.parametrize("text", ["", "00:05.0", "0000:00:20.0", "0000:00:05.8", "0000:00:05.0\n", "../x"])
def test_anything_else_is_none(text: str) -> None:
    assert not is_pci_address(text)
