"""The disks in a running domain's document: read, and a CD-ROM drive with another medium.

Called by `libvirt_session` and `domain_reading`. The document is libvirt's. On the host it opens block devices, for
their size.
"""

from __future__ import annotations

import os
import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Final

from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.libvirt.domain_facts import DomainDisk

# libvirt requires this before an alias that a user gives.
ALIAS: Final = "ua-"


def read_device_bytes(path: str) -> int:
    """The size of a block device; 0 when there is none, or none that can be opened."""
    if not path:
        return 0
    try:
        device = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return os.lseek(device, 0, os.SEEK_END) if stat.S_ISBLK(os.fstat(device).st_mode) else 0
    finally:
        os.close(device)


def read_disks(document: ElementTree.Element) -> Iterator[DomainDisk]:
    for disk in document.iterfind("devices/disk"):
        alias, target, source = disk.find("alias"), disk.find("target"), disk.find("source")
        if target is not None:
            name = "" if alias is None else alias.get("name", "").removeprefix(ALIAS)
            path = _read_path(source)
            read_only = disk.find("readonly") is not None
            part = disk.find("source/slices/slice[@type='storage']")
            size = 0 if part is None else int(part.get("size", "0"))
            copy = disk.find("mirror[@job='copy']")
            mirror = "" if copy is None else _read_path(copy.find("source"))
            is_mirrored = copy is not None and copy.get("ready") == "yes"
            device = disk.get("device", "disk")
            yield DomainDisk(name, target.get("dev", ""), device, path, read_only, size, mirror, is_mirrored)


def _read_path(source: ElementTree.Element | None) -> str:
    return "" if source is None else source.get("file") or source.get("dev") or ""


def drive_with_medium(document: ElementTree.Element, name: str, path: str, *, block: bool) -> ElementTree.Element:
    """The CD-ROM drive as it is, with another medium.

    Raises:
        WrongState: when there is no such drive.
    """
    found = document.find(f"devices/disk[@device='cdrom']/alias[@name='{ALIAS}{name}']/..")
    if found is None:
        raise WrongState(f"the domain has no CD-ROM drive {name}")
    for child in [child for child in found if child.tag in {"source", "backingStore"}]:
        found.remove(child)
    target = found.find("target")
    if target is not None:
        # How the tray is now is the guest's affair.
        target.attrib.pop("tray", None)
    found.set("type", "block" if block else "file")
    if path:
        # Nothing that the medium itself may name lies below it.
        found.insert(1, ElementTree.Element("source", {"dev" if block else "file": path}))
        found.insert(2, ElementTree.Element("backingStore"))
    return found
