"""`<blockio>`: the block sizes that a disk shows to the guest.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.disk_rules import DiskFacts
from kvedge.launcher.domain.libvirt_versions import DISCARD_GRANULARITY, require_libvirt
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.devices import BlockSize

_SECTOR: Final = 512


def add_block_size(disk: Element, wanted: BlockSize, facts: DiskFacts, context: DomainContext) -> None:
    """The sizes the VMI names, or those of the volume.

    Raises:
        ConversionError: when it asks for both, or for what is not known or not possible here.
    """
    field = f"{facts.field}.blockSize"
    matching = wanted.match_volume is not None and wanted.match_volume.enabled is not False
    if wanted.custom is not None and matching:
        raise ConversionError(field, "has both custom and matchVolume", "keep one of the two")
    if wanted.custom is not None:
        if wanted.custom.discard_granularity is not None:
            require_libvirt(context, DISCARD_GRANULARITY, f"{field}.custom.discardGranularity", "remove it")
        add(
            disk,
            "blockio",
            logical_block_size=wanted.custom.logical,
            physical_block_size=wanted.custom.physical,
            discard_granularity=wanted.custom.discard_granularity,
        )
    elif matching:
        if facts.source is None or facts.source.block_size is None:
            raise ConversionError(f"{field}.matchVolume", "the volume's block size is not known", "use custom")
        logical, physical = facts.source.block_size
        if facts.bus == "sata":
            # QEMU's ATA disks have no other.
            logical = _SECTOR
        # A file gives back whole blocks of its file system.
        granularity = facts.source.discard_granularity or (0 if facts.source.block else physical)
        # QEMU refuses one that is no multiple; an older libvirt leaves it to QEMU.
        is_told = granularity and not granularity % logical and context.libvirt_version >= DISCARD_GRANULARITY
        add(
            disk,
            "blockio",
            logical_block_size=logical,
            physical_block_size=physical,
            discard_granularity=granularity if is_told else None,
        )
