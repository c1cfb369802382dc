"""Hotplugged volumes in a launcher Pod, put there as the handler puts them; no claim and no handler is involved."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from tests.support.launcher_pod import QEMU_USER, LauncherPod
from tests.support.waiting import wait_until


class HotplugVmi:
    """A VMI whose volumes come and go; `sync` tells the launcher how it is now."""

    def __init__(self, pod: LauncherPod, **domain: Any) -> None:
        self.pod = pod
        self.domain = {"memory": {"guest": "64Mi"}, **domain}
        self.permanent: list[dict[str, Any]] = []
        self.permanent_volumes: list[dict[str, Any]] = []
        self.disks: dict[str, dict[str, Any]] = {}
        self.phases: dict[str, str] = {}
        self.blocks: set[str] = set()
        self.directory = pod.directory / "public" / "hotplug-disks"
        self.directory.mkdir(exist_ok=True)
        self.directory.chmod(0o755)

    def image(self, name: str, size: int = 16 << 20, content: bytes = b"") -> Path:
        """The image that the handler would have mounted."""
        path = self.directory / f"{name}.img"
        path.write_bytes(content)
        os.truncate(path, size)
        os.chown(path, QEMU_USER, QEMU_USER)
        return path

    def device(self, name: str, source: str) -> Path:
        """A device node as the handler would have made it, of the same device as `source`."""
        path = self.directory / name
        os.mknod(path, stat.S_IFBLK | 0o660, os.stat(source).st_rdev)
        os.chown(path, QEMU_USER, QEMU_USER)
        self.blocks.add(name)
        return path

    def add(self, name: str, bus: str = "scsi", phase: str = "MountedToPod", **disk: Any) -> None:
        """Add a volume to the VMI."""
        self.disks[name] = {"name": name, **(disk or {"disk": {"bus": bus}, "serial": f"SN-{name}"})}
        self.phases[name] = phase

    def remove(self, name: str) -> None:
        """Take it away again."""
        self.disks.pop(name)

    def document(self) -> dict[str, Any]:
        devices = {"disks": [*self.permanent, *self.disks.values()]}
        made = self.pod.vmi(
            domain={**self.domain, "devices": {**self.domain.get("devices", {}), **devices}},
            volumes=[
                *self.permanent_volumes,
                *(
                    {"name": name, "persistentVolumeClaim": {"claimName": name, "hotpluggable": True}}
                    for name in self.disks
                    if self.phases.get(name) is not None
                ),
            ],
        )
        made["status"] = {
            "volumeStatus": [
                {"name": name, "target": "", "phase": phase, "persistentVolumeClaimInfo": self._claim(name)}
                for name, phase in self.phases.items()
                if phase is not None
            ]
        }
        return made

    def _claim(self, name: str) -> dict[str, Any]:
        return {"claimName": name, "volumeMode": "Block" if name in self.blocks else "Filesystem"}

    def sync(self, **options: Any) -> Any:
        return self.pod.sync(self.document(), **options)

    def targets(self) -> dict[str, str]:
        """What is in the domain, by name."""
        return {disk.name: disk.target for disk in self.pod.call("GetDomain").disks}

    def wait_for(self, targets: dict[str, str], seconds: float = 30.0) -> None:
        """Until exactly these are in the domain."""
        wait_until(lambda: self.targets() == targets, f"the disks {targets}", seconds, pause=0.05)
