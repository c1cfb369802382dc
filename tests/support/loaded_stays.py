"""Where a guest under load is, one Pod after the other, and what is seen of a Pod that it leaves.

For the machine tests that move it; needs root. Pods, claims and links are this machine's, and go with their stay.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvedge.handler.launchers.launcher_connections import LauncherConnections
from kvedge.rpc import launcher_pb2 as m
from tests.support.launcher_pod import NETWORK as POD_NETWORK
from tests.support.launcher_pod import LauncherPod, guest_interface, launcher_pod
from tests.support.loaded_guest import SCRIPT
from tests.support.moving_claims import SIZE, VOLUME, MovingClaim, MovingClaims


@dataclass
class Stay:
    """A Pod that the guest is in, its claim, and all that ends with it."""

    pod: LauncherPod
    claim: MovingClaim
    ends: contextlib.ExitStack

    @property
    def log(self) -> Path:
        return self.pod.directory / "private" / self.pod.uid / "virt-serial0-log"

    def said(self) -> bytes:
        return self.log.read_bytes() if self.log.exists() else b""


@dataclass
class Node:
    """This machine, on which Pods are made; it has both nodes' handlers."""

    directory: Path
    seed: Path
    claims: MovingClaims
    connections: list[LauncherConnections]
    made: int = 0

    @property
    def kubelet(self) -> Path:
        """There while the guest moves."""
        return self.directory / "kubelet"

    def stay(self, incoming: str = "") -> Stay:
        """Another Pod on an empty claim; for a guest that comes by a migration, or for one that starts."""
        self.made += 1
        claim, ends = self.claims.filesystem(), contextlib.ExitStack()
        directory = self.directory / f"pod{self.made}"
        ends.callback(shutil.rmtree, claim.image.parent)
        ends.callback(shutil.rmtree, directory)
        options = ("--incoming", incoming) if incoming else ()
        before = f"mount --bind {self.directory}/passwd /etc/passwd\n{claim.mounting}"
        images = {"disk_0": self.directory / "image"}
        made = launcher_pod(directory, seed=self.seed, images=images, options=options, before=before)
        return Stay(ends.enter_context(made), claim, ends)


class Silence:
    """When the guest said its last word in one log, and its first in another, by this machine's clock."""

    def __init__(self, left: Path, came: Path) -> None:
        self._logs = (left, came)
        self._over = threading.Event()
        self._sizes = [0, 0]
        self.last = self.first = 0.0
        self._thread = threading.Thread(target=self._watch, name="silence")

    def __enter__(self) -> Silence:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            now = time.monotonic()
            for number, log in enumerate(self._logs):
                with contextlib.suppress(FileNotFoundError):
                    size = log.stat().st_size
                    if size != self._sizes[number]:
                        self._sizes[number] = size
                        self._note(number, now)

    def _note(self, number: int, now: float) -> None:
        if number == 0:
            self.last = now
        elif not self.first:
            self.first = now


def loaded_vmi(stay: Stay) -> dict[str, Any]:
    disk = {"bus": "virtio"}
    made = stay.pod.vmi(
        domain={
            "memory": {"guest": "128Mi"},
            "devices": {
                "disks": [{"name": name, "disk": disk} for name in ("root", "scratch", "seed", VOLUME)],
                "interfaces": POD_NETWORK["interfaces"],
            },
        },
        networks=POD_NETWORK["networks"],
        volumes=[
            {"name": "root", "containerDisk": {"image": "guest"}},
            {"name": "scratch", "emptyDisk": {"capacity": "64Mi"}},
            {"name": "seed", "cloudInitNoCloud": {"userData": SCRIPT}},
            {"name": VOLUME, "persistentVolumeClaim": {"claimName": stay.claim.name}},
        ],
    )
    entry = {"name": VOLUME, "target": "", "persistentVolumeClaimInfo": stay.claim.info}
    made["status"] = {"volumeStatus": [entry]}
    return made


def prepare(source: Stay, target: Stay, uid: str) -> Any:
    """Have the target make the guest's files, and listen."""
    status = source.pod.call("GetDomain")
    guest = m.SyncRequest(
        vmi_json=json.dumps(loaded_vmi(target)).encode(),
        interfaces=[guest_interface()],
        options=m.NodeOptions(emulation=True),
    )
    sizes = {disk.name: disk.image_bytes for disk in status.disks if disk.image_bytes}
    request = m.PrepareIncomingRequest(
        migration_uid=uid, guest=guest, image_bytes=sizes, copied_disk_bytes={VOLUME: SIZE}
    )
    return target.pod.call("PrepareIncoming", request, 60)


def listening(directory: Path) -> list[str]:
    """The sockets below a directory at which somebody listens; the names of others may be left."""
    found = [path for path in directory.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]
    return [path.name for path in found if is_open(path)]


def is_open(path: Path) -> bool:
    # The path is longer than a socket's name may be.
    opened = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{opened}/{path.name}")
    except ConnectionRefusedError:
        return False
    finally:
        os.close(opened)
    return True


@contextlib.contextmanager
def network_of(pod: LauncherPod) -> Iterator[Callable[[], list[str]]]:
    """What still runs in a Pod's network namespace, also when the Pod has ended; its links go with the last process."""
    # As long as it is open its number is nobody else's.
    opened = os.open(f"/proc/{pod.monitor_pid()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    number = os.fstat(opened).st_ino

    def look() -> list[str]:
        found = []
        for place in (Path("/proc", name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError):
                if (place / "ns/net").stat().st_ino == number:
                    found.append((place / "cmdline").read_text())
        return found

    try:
        yield look
    finally:
        os.close(opened)
