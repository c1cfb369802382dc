"""The disks on claims that are copied when a guest moves: what both handlers tell their launchers of them.

Called by the source's steps, and by what prepares the target's Pod. Pure. Which claims are exchanged, the controller
has written into the VMI before, and nobody changes it as long as the migration is open.
"""

from __future__ import annotations

from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.disks.hotplug_places import is_block
from kvedge.resources.disks.moved_volumes import destinations
from kvedge.resources.types.vmi import VirtualMachineInstance


def copied_bytes(vmi: VirtualMachineInstance) -> dict[str, int]:
    """The sizes of these disks as the guest sees them, by volume; 0 for one that is not known."""
    found = destinations(vmi)
    if not found:
        return {}
    sizes = {entry.name: max(0, entry.size) for entry in vmi.status.volume_status}
    return {name: sizes.get(name, 0) for name in sorted(found)}


def known_bytes(vmi: VirtualMachineInstance) -> dict[str, int]:
    """As :func:`copied_bytes`, of which all are known.

    Raises:
        PodNotReady: when the source's handler has not told one yet.
    """
    found = copied_bytes(vmi)
    unknown = [name for name, size in found.items() if not size]
    if unknown:
        text = f"the size of disk {unknown[0]}, which is to be copied to another claim, is not known yet"
        raise PodNotReady(f"{text}; a launcher of an earlier version does not tell it: restart the VM then")
    return found


def copied_devices(vmi: VirtualMachineInstance) -> list[str]:
    """Those of the volumes that get a block device."""
    return sorted(name for name, claim in destinations(vmi).items() if is_block(claim.volume_mode))
