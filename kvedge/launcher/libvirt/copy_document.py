"""The document of a disk's copy, and what QEMU says of how much of it is left.

Called by `domain_copies`. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from xml.etree import ElementTree


def render_copy(document: ElementTree.Element, target: str, path: str, *, block: bool) -> str:
    """The document of a disk's copy, which is opened as the disk is."""
    found = document.find(f"devices/disk/target[@dev='{target}']/..")
    driver = None if found is None else found.find("driver")
    kept = {} if driver is None else {name: driver.get(name, "") for name in ("cache", "discard") if driver.get(name)}
    disk = ElementTree.Element("disk", {"type": "block" if block else "file", "device": "disk"})
    ElementTree.SubElement(disk, "driver", {"name": "qemu", "type": "raw", **kept})
    ElementTree.SubElement(disk, "source", {"dev" if block else "file": path})
    return ElementTree.tostring(disk, encoding="unicode")


def count_dirty_bytes(nodes: Collection[dict[str, Any]]) -> int:
    """What is still to be copied, of QEMU's answer about its block devices; bitmaps with a name are others'."""
    bitmaps = (bitmap for node in nodes for bitmap in node.get("dirty-bitmaps") or ())
    return sum(int(bitmap["count"]) for bitmap in bitmaps if not bitmap.get("name"))
