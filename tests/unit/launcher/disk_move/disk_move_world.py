"""Disks that move in place: the launcher's and the handler's real parts, beside a QEMU and an API that are played.

Used by the tests of this folder. Writes images below a test's directory only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kvedge.launcher.launcher_errors import LibvirtFailed
from kvedge.launcher.libvirt.domain_facts import CopyProgress, DiskSize, DomainDisk, DomainFacts, Life, Why
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.disks.moved_places import moved_path, moved_place
from kvedge.resources.disks.moved_volumes import IN_PLACE, VOLUMES_CHANGE
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import Condition
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.storage.arriving_mark import ARRIVING

BYTES = 1 << 20
VOLUMES = ("root", "data")
DEVICES = ((), ("data",), VOLUMES)
T = TypeVar("T")


def merge(old: Any, patch: Any) -> Any:
    """A merge patch, as an API applies it."""
    if not isinstance(patch, dict):
        return patch
    made: JsonObject = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merge(made.get(name), value)
    return made


class Killed(BaseException):
    """kill -9, in the middle of a step."""


@dataclass
class Disk:
    """One of QEMU's: the claim it writes, and the copy; `versions` are the contents of the claims."""

    claim: str
    mirror: str = ""
    ready: bool = False
    # QEMU was told to exchange it, and has not done so yet.
    is_ending: bool = False


@dataclass
class World:
    """A guest that writes whenever its CPUs run, its QEMU, its VMI, and the claims' directories."""

    root: Path
    # At which step something is killed, counted from the beginning; and whether that step is still done.
    dies_at: int = -1
    is_done: bool = False
    steps: int = 0
    now: float = 100.0
    paused: bool = False
    versions: dict[str, int] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    # The volumes whose new claims are devices.
    devices: tuple[str, ...] = ()
    fails: set[str] = field(default_factory=set)
    # Its QEMU has ended; and the disks that libvirt's document does not have, as that of the next start.
    has_ended: bool = False
    unseen: set[str] = field(default_factory=set)
    # What a power cut would have found wrong, at any step.
    stale: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-old"}} for name in VOLUMES]
        moved = [
            {
                "volumeName": name,
                "sourcePVCInfo": {"claimName": f"{name}-old"},
                "destinationPVCInfo": {
                    "claimName": f"{name}-new",
                    "volumeMode": "Block" if name in self.devices else "Filesystem",
                },
            }
            for name in VOLUMES
        ]
        meta = {"name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "1"}
        self.vmi = decode(
            VirtualMachineInstance,
            {
                "metadata": meta,
                "spec": {"domain": {}, "volumes": volumes},
                "status": {"phase": "Running", "migratedVolumes": moved},
            },
        )
        self.vmi.status.conditions = [Condition(type=VOLUMES_CHANGE, status="True", reason=IN_PLACE)]
        for name in VOLUMES:
            self.disks[name] = Disk(f"{name}-old")
            self.versions[f"{name}-old"] = self.latest[name] = 1
            self.directory(name).mkdir(parents=True, exist_ok=True)
            if name in self.devices:
                self.image(name).write_bytes(bytes(BYTES))

    def directory(self, name: str) -> Path:
        return self.image(name).parent

    def image(self, name: str) -> Path:
        return Path(str(self.root) + moved_path(moved_place(name, f"{name}-new"), block=name in self.devices))

    def path(self, name: str, claim: str) -> str:
        return str(self.image(name)) if claim.endswith("-new") else f"/old/{name}"

    def step(self, act: Callable[[], T]) -> T:
        """Something that lasts happens; a power cut may come before it, and after it."""
        self.write()
        self.cut_power()
        self.steps += 1
        if self.steps == self.dies_at and not self.is_done:
            raise Killed
        found = act()
        self.write()
        self.cut_power()
        if self.steps == self.dies_at:
            raise Killed
        return found

    def write(self) -> None:
        """The guest writes, and is told that it is written."""
        if not self.paused:
            for name, disk in self.disks.items():
                self.latest[name] += 1
                self.versions[disk.claim] = self.latest[name]

    def cut_power(self) -> None:
        """What the next start would find."""
        for volume in self.vmi.spec.volumes:
            claim = claim_of(volume) or ""
            is_new = claim.endswith("-new")
            has_word = volume.name not in self.devices and (self.directory(volume.name) / ARRIVING).exists()
            if is_new and has_word:
                self.refused.append(volume.name)
            elif self.versions.get(claim) != self.latest[volume.name]:
                self.stale.append(f"{volume.name} on {claim} at step {self.steps}")

    # The session.

    @property
    def copies(self) -> World:
        return self

    def facts(self) -> DomainFacts:
        disks = tuple(
            DomainDisk(
                name,
                f"vd-{name}",
                source=self.path(name, disk.claim),
                mirror=self.path(name, disk.mirror) if disk.mirror else "",
                is_mirrored=disk.ready,
            )
            for name, disk in self.disks.items()
            if name not in self.unseen
        )
        if self.has_ended:
            return DomainFacts(uuid="u", life=Life.SHUTOFF, why=Why.CRASHED, disks=disks)
        life, why = (Life.PAUSED, Why.USER) if self.paused else (Life.RUNNING, Why.UNPAUSED)
        return DomainFacts(uuid="u", life=life, why=why, pid=1, disks=disks)

    def disk_sizes(self, names: frozenset[str]) -> dict[str, DiskSize]:
        return {name: DiskSize(f"vd-{name}", BYTES) for name in names}

    def pause(self) -> None:
        self.step(lambda: setattr(self, "paused", True))

    def unpause(self) -> None:
        self.step(lambda: setattr(self, "paused", False))

    def begin(self, target: str, path: str, *, block: bool) -> None:
        disk, name = self.disks[target.removeprefix("vd-")], target.removeprefix("vd-")
        if "begin" in self.fails:
            raise LibvirtFailed("copying", 1, 1, "no")
        assert (path, block) == (str(self.image(name)), name in self.devices)
        self.step(lambda: self._mirror(disk, f"{name}-new"))

    def _mirror(self, disk: Disk, claim: str) -> None:
        disk.mirror = claim

    def progress(self, target: str) -> CopyProgress:
        return CopyProgress(1, 2)

    def are_alike(self, targets: list[str]) -> bool:
        assert self.paused
        if "alike" in self.fails:
            self.now += 1
            return False
        for disk in self.disks.values():
            if disk.mirror:
                self.versions[disk.mirror] = self.versions[disk.claim]
        return True

    def pivot(self, target: str) -> None:
        name = target.removeprefix("vd-")
        disk = self.disks[name]
        self.has_ended = self.has_ended or "qemu" in self.fails
        if {"pivot", f"pivot {name}"} & self.fails or self.has_ended or disk.is_ending or not disk.mirror:
            raise LibvirtFailed("pivoting", 1, 1, "no")
        if "slow pivot" in self.fails:
            disk.is_ending, disk.ready = True, False
            raise Killed
        self.step(lambda: self._end(disk, disk.mirror))

    def end_slow_pivots(self) -> None:
        """QEMU has exchanged what an earlier launcher has told it to."""
        self.fails.discard("slow pivot")
        for disk in self.disks.values():
            if disk.is_ending:
                disk.is_ending = False
                self._end(disk, disk.mirror)

    def give_up(self, target: str) -> None:
        disk = self.disks[target.removeprefix("vd-")]
        if self.has_ended or disk.is_ending or not disk.mirror:
            raise LibvirtFailed("giving up", 1, 1, "no")
        self.step(lambda: self._end(disk, disk.claim))

    def _end(self, disk: Disk, claim: str) -> None:
        assert disk.mirror
        disk.claim, disk.mirror, disk.ready = claim, "", False
