"""What libvirt says of the one domain of a launcher, without libvirt's types.

Made by `domain_reading`, read by `domain_plan` and `domain_view`. Touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple


class Life(Enum):
    """libvirt's domain states."""

    RUNNING = "running"
    BLOCKED = "blocked"
    PAUSED = "paused"
    SHUTTING_DOWN = "shutting down"
    SHUTOFF = "shut off"
    CRASHED = "crashed"
    SUSPENDED = "suspended by the guest"
    UNKNOWN = "unknown"


class Why(Enum):
    """The reasons of libvirt that kvedge acts on; all others are OTHER."""

    BOOTED = "booted"
    UNPAUSED = "unpaused"
    STARTING_UP = "starting up"
    MIGRATING = "stopped by a migration"
    CANCELLED = "let go on by libvirt after a migration that failed"
    MIGRATED = "left for another host"
    USER = "paused by request"
    IO_ERROR = "paused after an I/O error"
    DUMP = "stopped while its memory is written to a file"
    SHUTDOWN = "the guest powered off"
    DESTROYED = "ended by request"
    CRASHED = "QEMU ended by itself"
    PANICKED = "the guest's kernel panicked"
    FAILED = "QEMU did not start"
    OTHER = "other"


# Without a QEMU.
ENDED: Final = frozenset({Life.SHUTOFF, Life.CRASHED, Life.UNKNOWN})


class DomainDisk(NamedTuple):
    """One disk of the domain: `name` is the VMI's, `device` disk, cdrom or lun, `source` a path, "" for none.

    `read_only` says that the guest cannot write it; `part_bytes` is not 0 for a disk that is a part of its device.
    `mirror` is the path of the copy that is being made of it, `is_mirrored` that this one has all that it has.
    """

    name: str
    target: str
    device: str = "disk"
    source: str = ""
    read_only: bool = False
    part_bytes: int = 0
    mirror: str = ""
    is_mirrored: bool = False


class DiskError(NamedTuple):
    """A disk whose error has paused the guest: `name` is the VMI's, `no_space` that its place is full."""

    name: str
    no_space: bool


class CopyProgress(NamedTuple):
    """How far the copy of a disk is, in bytes; what is written again counts again."""

    copied: int = 0
    total: int = 0


# Some guests see nothing of a link that was down for less. KubeVirt's.
DOWN_SECONDS: Final = 0.1


class DomainNic(NamedTuple):
    """One NIC of the domain: `name` is the VMI's, `is_down` that the guest sees no carrier, `is_function` that it is a
    virtual function of a card, which the guest has for itself.
    """

    name: str
    mac: str
    tap: str
    is_down: bool = False
    queues: int = 1
    is_function: bool = False


class VcpuPlace(NamedTuple):
    """Where a vCPU runs: `host_cpu` is the last one that it ran on, `may_use` all that it may run on."""

    number: int
    waits: bool
    host_cpu: int
    run_ns: int
    may_use: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainLook:
    """All that is shown of the domain to people: `id` is 0 when it does not run, `document` has no secrets,
    `qemu` is 0 when its version is not known.
    """

    name: str
    uuid: str
    id: int
    life: Life
    why: Why
    document: str
    vcpus: tuple[VcpuPlace, ...]
    libvirt: int
    qemu: int


@dataclass(frozen=True, slots=True)
class DiskSize:
    """A disk of the running domain: its target, its size for the guest, and that of the device below it (0: a file)."""

    target: str
    bytes: int
    device_bytes: int = 0


class MemoryFacts(NamedTuple):
    """The guest's memory in bytes: what it started with, how much may come beside that, how much of it the guest is
    asked to have, and has. Of a guest that has come from another node libvirt says that it has none beside, until it
    next takes or gives back some: it hears of that by events alone.
    """

    boot: int = 0
    room: int = 0
    requested: int = 0
    plugged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFacts:
    """One look at the domain: `pid` is QEMU's, 0 when there is none."""

    uuid: str
    life: Life
    why: Why
    pid: int = 0
    machine: str = ""
    disks: tuple[DomainDisk, ...] = ()
    # Of a guest that is paused after an I/O error.
    disk_errors: tuple[DiskError, ...] = ()
    nics: tuple[DomainNic, ...] = ()
    io_threads: int = 0
    # Those that it has, and those that it may get.
    vcpus: int = 0
    most_vcpus: int = 0
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    agent_connected: bool = False
    # libvirt has its definition, too: a guest that comes has one once it is here as a whole.
    is_persistent: bool = False
    # The migration by which the guest came with copies of its disks on claims, and these volumes.
    copied_by: str = ""
    copied: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether there is a QEMU."""
        return self.life not in ENDED
