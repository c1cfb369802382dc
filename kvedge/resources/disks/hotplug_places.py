"""What controller, handler and launcher must agree on of a hotplugged volume: its places, and the phases of its status.

Called by those roles, by the launcher's process that stays too, and by `volume_facts`. Pure; imports nothing.
"""

from __future__ import annotations

from typing import Final

# Where the handler puts hotplugged volumes: `<volume>.img` for a file, `<volume>` for a device node, `<volume>.dump`
# for the file of a dump.
HOTPLUG_DIRECTORY: Final = "/var/run/kubevirt/hotplug-disks"
# Ends the name of the file there that a dump of the guest's memory goes into.
DUMP_SUFFIX: Final = ".dump"
# The empty volume of the launcher Pod that is there.
HOTPLUG_VOLUME: Final = "hotplug-disks"
# In an attachment Pod: the claim's file system, or its device, and an empty volume by which its process is known.
CLAIM_PLACE: Final = "/pvc"
DEVICE_PLACE: Final = "/dev/hotplugblockdevice"
MARK_VOLUME: Final = "hotplug-mark"
MARK_PLACE: Final = "/var/run/kvedge/hotplug"

# KubeVirt's. The controller writes those up to AttachedToNode and the end, the handler those between.
PENDING: Final = "Pending"
BOUND: Final = "Bound"
ATTACHED_TO_NODE: Final = "AttachedToNode"
MOUNTED: Final = "MountedToPod"
READY: Final = "Ready"
UNMOUNTED: Final = "UnMountedFromPod"
DETACHING: Final = "Detaching"
DUMP_IN_PROGRESS: Final = "MemoryDumpInProgress"
DUMP_COMPLETED: Final = "MemoryDumpCompleted"
DUMP_FAILED: Final = "MemoryDumpFailed"
# The volume is in the launcher's Pod.
HANDED_OVER: Final = frozenset({MOUNTED, READY, DUMP_IN_PROGRESS, DUMP_COMPLETED, DUMP_FAILED})


def hotplug_path(volume: str, *, block: bool) -> str:
    """Where a hotplugged volume is in the launcher's Pod."""
    return f"{HOTPLUG_DIRECTORY}/{volume}" if block else f"{HOTPLUG_DIRECTORY}/{volume}.img"


def dump_path(volume: str) -> str:
    """Where the file is, in the launcher's Pod, that a dump of the guest's memory is written into."""
    return f"{HOTPLUG_DIRECTORY}/{volume}{DUMP_SUFFIX}"


def is_block(volume_mode: str | None) -> bool:
    """Whether a claim of this mode is a device; Kubernetes' default is a file system."""
    return volume_mode == "Block"
