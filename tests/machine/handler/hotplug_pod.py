"""A launcher's Pod and attachment Pods without Kubernetes: real containers with mount namespaces of their own."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.launchers.launcher_socket import volume_directory
from kvedge.handler.volumes.hotplug_plan import HotplugSeen
from kvedge.handler.volumes.hotplug_volumes import HotplugVolumes
from kvedge.network.netns import create_netns, delete_netns
from kvedge.resources.codec import decode
from kvedge.resources.disks.hotplug_places import (
    CLAIM_PLACE,
    DEVICE_PLACE,
    HOTPLUG_DIRECTORY,
    HOTPLUG_VOLUME,
    MARK_PLACE,
    MARK_VOLUME,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DiskTarget, DomainStatus
from kvedge.standalone.agent.container.container_spec import MountSpec
from kvedge.standalone.agent.container.container_state import Running, signal_container
from tests.machine.agent.containers import Containers, containers, mount
from tests.support.waiting import wait_until

LAUNCHER_POD = "44444444-4444-4444-4444-444444444444"
USER = 107


class HotplugPod:
    """One launcher and its volumes; a volume's attachment Pod has its name as UID."""

    def __init__(self, path: Path, tree: Path, netns: Path, made: Containers) -> None:
        self.path, self.tree, self.kubelet = path, tree, path / "kubelet"
        self._netns, self._containers = netns, made
        self.volumes = HotplugVolumes(self.kubelet)
        self.place = volume_directory(self.kubelet, LAUNCHER_POD, HOTPLUG_VOLUME)
        self.place.mkdir(parents=True)
        self.place.chmod(0o777)
        self.launcher = self._start("compute", [mount(self.place, HOTPLUG_DIRECTORY, follow_host=True)])
        self.wanted: dict[str, str] = {}
        self.blocks: set[str] = set()

    def claim(self, name: str, mode: int = 0o2770) -> Path:
        """A claim with a file system, as kubelet leaves it."""
        path = self.path / "claims" / name
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, USER)
        path.chmod(mode)
        return path

    def attach(self, name: str, *, device: int = 0, given: int | None = None, pod: str = "") -> str:
        """Start the attachment Pod of a volume, for a file system or a device; its UID.

        `given` is the device that the kubelet gave it, 0 for none; unless said, the one that it has.
        """
        uid = pod or f"pod-{name}"
        mark = volume_directory(self.kubelet, uid, MARK_VOLUME)
        mark.mkdir(parents=True)
        mounts = [mount(mark, MARK_PLACE)]
        if not device:
            mounts.append(mount(self.claim(name), CLAIM_PLACE))
        pid = self._start(uid, mounts)
        if device:
            os.mknod(f"/proc/{pid}/root{DEVICE_PLACE}", stat.S_IFBLK | 0o600, device)
            self.blocks.add(name)
        number = device if given is None else given
        if number:
            place = self.kubelet / "pods" / uid / "volumeDevices" / "kubernetes.io~local-volume"
            place.mkdir(parents=True)
            os.mknod(self.path / f"device-{uid}", stat.S_IFBLK | 0o600, number)
            (place / "pv").symlink_to(self.path / f"device-{uid}")
        self.wanted[name] = uid
        return uid

    def end(self, name: str) -> None:
        """Kill a container."""
        files = self._containers.files.container(name)
        signal_container(files, signal.SIGKILL, self._containers.boot)
        self._containers.ended(files)

    def vmi(self, phase: str = "AttachedToNode") -> VirtualMachineInstance:
        """The VMI with all volumes that are wanted now."""
        volumes = [
            {"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}} for name in self.wanted
        ]
        document: dict[str, Any] = {
            "metadata": {"name": "web", "namespace": "default", "uid": "22222222-2222-2222-2222-222222222222"},
            "spec": {"domain": {"devices": {}}, "volumes": volumes},
            "status": {"volumeStatus": [self._entry(name, uid, phase) for name, uid in self.wanted.items()]},
        }
        return decode(VirtualMachineInstance, document)

    def _entry(self, name: str, uid: str, phase: str) -> dict[str, Any]:
        claim = {
            "claimName": name,
            "volumeMode": "Block" if name in self.blocks else "Filesystem",
            "capacity": {"storage": "64Mi"},
            "requests": {"storage": "64Mi"},
        }
        attachment = {"attachPodName": f"hp-volume-{name}", "attachPodUID": uid}
        return {
            "name": name,
            "target": "",
            "phase": phase,
            "persistentVolumeClaimInfo": claim,
            "hotplugVolume": attachment,
        }

    def hand_over(self) -> HotplugSeen:
        with HeldProcess.of(self.launcher) as launcher:
            return self.volumes.hand_over(self.vmi(), launcher)

    def take_back(self, *attached: str) -> HotplugSeen:
        status = DomainStatus(disks=[DiskTarget(name=name, target="sda") for name in attached])
        with HeldProcess.of(self.launcher) as launcher:
            return self.volumes.take_back(self.vmi(), status, launcher)

    def seen(self, name: str) -> Path:
        """A file of the launcher's hotplug directory, as the launcher has it."""
        # Its /var/run is a link, which would lead into the host's from here.
        return Path(f"/proc/{self.launcher}/root{HOTPLUG_DIRECTORY.removeprefix('/var')}") / name

    def mounted(self) -> list[str]:
        """What is mounted in the launcher's hotplug directory."""
        table = [line.split()[4] for line in Path(f"/proc/{self.launcher}/mountinfo").read_text().splitlines()]
        return [target.rpartition("/")[2] for target in table if "/hotplug-disks/" in target]

    def _start(self, name: str, mounts: list[MountSpec]) -> int:
        files = self._containers.start(
            name,
            "",
            root=str(self.tree),
            argv=["sleep", "1000"],
            mounts=mounts,
            netns=str(self._netns),
            env={"PATH": "/bin"},
        )
        state = self._containers.state(files)
        assert isinstance(state, Running), files.log.read_text()
        wait_until(lambda: Path(f"/proc/{state.pid}/cmdline").read_text().startswith("sleep"), "its command")
        return state.pid


@contextmanager
def hotplug_pod(path: Path, tree: Path) -> Iterator[HotplugPod]:
    """For the duration of a test."""
    name = f"kvt{os.getpid()}-hotplug"
    netns = create_netns(name)
    try:
        with containers(path, path) as made:
            yield HotplugPod(path, tree, netns, made)
    finally:
        delete_netns(name)
