"""The hotplugged volumes of this node's VMIs: looked at, handed over and taken back, each by itself.

Called by the sync loop, before and after it speaks with the launcher. Keeps nothing: what has been done is seen in the
launcher's Pod. One volume that fails holds up no other one.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from pathlib import Path
from typing import Final

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.volumes.attachment_pods import find_attachment_pods
from kvedge.handler.volumes.claim_image import ImageRefused
from kvedge.handler.volumes.copy_place import accept_copy
from kvedge.handler.volumes.given_devices import find_given_devices
from kvedge.handler.volumes.hotplug_plan import (
    HandOver,
    HotplugSeen,
    find_copies,
    plan_hand_over,
    plan_take_back,
)
from kvedge.handler.volumes.memory_dump_files import discard_dump, finish_dump, hand_over_dump
from kvedge.handler.volumes.volume_hand_over import (
    hand_over_device,
    hand_over_directory,
    hand_over_file,
    hold_hotplug_directory,
    leftovers,
    present_volumes,
    take_back,
)
from kvedge.resources.disks.hotplug_places import is_block
from kvedge.resources.disks.moved_volumes import attached_volumes
from kvedge.resources.types.vmi import VirtualMachineInstance, VolumeStatus
from kvedge.rpc.launcher_pb2 import DomainStatus

log = logging.getLogger(__name__)

# Its process may not be there yet, or be gone already: the next look tells.
_WAITS: Final = (
    "its attachment Pod does not run on this node (yet); kubectl describe pods -l kubevirt.io=hotplug-disk says why"
)


class HotplugVolumes:
    """All hotplugged volumes of this node."""

    def __init__(self, kubelet: Path) -> None:
        self._kubelet = kubelet

    def hand_over(
        self, vmi: VirtualMachineInstance, launcher: HeldProcess, *, makes_images: bool = True
    ) -> HotplugSeen:
        """Give the launcher what it is to have and does not; what it has stays as it is. Never raises.

        Without `makes_images` a claim without an image is refused: its guest runs elsewhere, and has one.
        """
        try:
            with hold_hotplug_directory(launcher) as directory:
                present = present_volumes(directory)
        except FileNotFoundError:
            text = "the launcher's Pod has no place for hotplugged volumes; restart the VM"
            return HotplugSeen(
                troubles={volume.name: f"Volume {volume.name}: {text}" for volume in attached_volumes(vmi)}
            )
        except OSError as error:
            # It has just ended, which is told by another way.
            return HotplugSeen(
                troubles={volume.name: f"Volume {volume.name}: {error}" for volume in attached_volumes(vmi)}
            )
        missing = plan_hand_over(vmi, present)
        if not missing:
            return HotplugSeen(frozenset(present))
        troubles: dict[str, str] = {}
        done = set(present)
        with contextlib.ExitStack() as stack:
            sources = find_attachment_pods(self._kubelet, {item.pod_uid for item in missing}, stack)
            for item in missing:
                source = sources.get(item.pod_uid)
                trouble = self._hand_over(item, source, launcher, vmi.metadata.uid, makes_images=makes_images)
                if trouble:
                    troubles[item.name] = trouble
                else:
                    done.add(item.name)
                    log.info("volume handed over", extra={"facts": {"volume": item.name, "block": item.block}})
        return HotplugSeen(frozenset(done), troubles)

    def take_back(self, vmi: VirtualMachineInstance, status: DomainStatus, launcher: HeldProcess) -> HotplugSeen:
        """Take what neither the VMI wants nor the domain has; only once the launcher follows this VMI. Never raises."""
        troubles: dict[str, str] = {}
        try:
            with hold_hotplug_directory(launcher) as directory:
                there = {*present_volumes(directory), *leftovers(directory)}
            for name in plan_take_back(vmi, status, there):
                trouble = _take_back(name, launcher)
                if trouble:
                    troubles[name] = trouble
            with hold_hotplug_directory(launcher) as directory:
                return HotplugSeen(frozenset(present_volumes(directory)), troubles, is_followed=True)
        except FileNotFoundError:
            return HotplugSeen(troubles=troubles, is_followed=True)
        except OSError as error:
            log.warning("cannot look at the launcher's volumes", extra={"facts": {"why": str(error)}})
            return HotplugSeen(troubles=troubles)

    def accept_copies(self, vmi: VirtualMachineInstance) -> str:
        """Say in the claims of a copy that it is whole; what is in the way, empty when all of them say so."""
        files = {
            name: entry.hotplug_volume.attach_pod_uid
            for entry in vmi.status.volume_status
            if (name := entry.name) in find_copies(vmi) and not _is_device(entry) and entry.hotplug_volume is not None
        }
        with contextlib.ExitStack() as stack:
            sources = find_attachment_pods(self._kubelet, set(files.values()), stack)
            for name, uid in files.items():
                source = sources.get(uid)
                if source is None:
                    return f"Volume {name}: {_WAITS}"
                try:
                    accept_copy(source, find_copies(vmi)[name])
                except (ImageRefused, OSError) as error:
                    return f"Volume {name}, which holds a copy: {error}"
        return ""

    def _hand_over(
        self, item: HandOver, source: HeldProcess | None, launcher: HeldProcess, vmi_uid: str, *, makes_images: bool
    ) -> str:
        """What is in the way; empty when the volume has been handed over."""
        if source is None:
            return f"Volume {item.name}: {_WAITS}"
        try:
            if item.dump_bytes:
                hand_over_dump(item.name, vmi_uid, item.dump_bytes, source, launcher)
            elif item.block:
                hand_over_device(item.name, find_given_devices(self._kubelet, item.pod_uid), source, launcher)
            elif item.is_directory:
                hand_over_directory(item.name, source, launcher)
            else:
                hand_over_file(item.name, item.info if makes_images else None, source, launcher, item.copy)
        except (ImageRefused, OSError) as error:
            return f"Volume {item.name} cannot be handed to the launcher: {error}"
        return ""

    def finish_dump(self, vmi_uid: str, pod_uid: str, file: str) -> None:
        """Give the dump that was written its name in the claim, and delete the earlier ones there.

        Raises:
            ImageRefused: when there is none.
            OSError: when it cannot be done, or not yet.
        """
        with contextlib.ExitStack() as stack:
            finish_dump(self._find_source(pod_uid, stack), vmi_uid, file)

    def discard_dump(self, vmi_uid: str, pod_uid: str) -> None:
        """Delete a dump that is not whole. Raises OSError."""
        with contextlib.ExitStack() as stack:
            discard_dump(self._find_source(pod_uid, stack), vmi_uid)

    def _find_source(self, pod_uid: str, stack: contextlib.ExitStack) -> HeldProcess:
        found = find_attachment_pods(self._kubelet, {pod_uid}, stack).get(pod_uid) if pod_uid else None
        if found is None:
            raise ProcessLookupError(errno.ESRCH, _WAITS)
        return found


def _is_device(entry: VolumeStatus) -> bool:
    info = entry.persistent_volume_claim_info
    return info is not None and is_block(info.volume_mode)


def _take_back(name: str, launcher: HeldProcess) -> str:
    try:
        take_back(name, launcher)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return f"Volume {name} is still open in QEMU; it is tried again, and a restart of the VM frees it"
        return f"Volume {name} cannot be taken back: {error}"
    except ImageRefused as error:
        return f"Volume {name} cannot be taken back: {error}"
    log.info("volume taken back", extra={"facts": {"volume": name}})
    return ""
