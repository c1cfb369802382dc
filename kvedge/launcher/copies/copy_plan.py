"""Which disks of the running domain a copy takes, whether there is room, and when it must give way to the guest.

Called by `disk_copies`. Pure. A copy that would take a place's last room away is ended before the guest notices: what
the guest writes over has to be put aside first, and a guest that cannot do that stands still with an I/O error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kvedge.launcher.launcher_errors import BadRequest, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainDisk, DomainFacts, Life, Why

_MIB: Final = 1 << 20
# Of the place for what is written over: this is left to the guest, or a tenth of a small place.
RESERVE_BYTES: Final = 512 * _MIB
# How a guest was held still; KubeVirt's words.
GUEST_AGENT: Final = "GuestAgent"
NO_GUEST_AGENT: Final = "NoGuestAgent"
QUIESCE_TIMEOUT: Final = "QuiesceTimeout"
PAUSED: Final = "Paused"
# Of backups: the agent refused, or nobody wanted it.
QUIESCE_FAILED: Final = "QuiesceFailed"
QUIESCE_SKIPPED: Final = "QuiesceSkipped"
# What an agent says on Windows when its writers have gone on before they were told to.
FREEZE_WAS_LIMITED: Final = "fsfreeze is limited"


class WantedCopy(NamedTuple):
    """A volume of the VMI, and the one that its copy goes into; `block`: that is a device."""

    volume: str
    target: str
    block: bool


class DiskToCopy(NamedTuple):
    """A disk of the domain and what is wanted of it; `served` is False of one that the guest cannot write."""

    wanted: WantedCopy
    disk: DomainDisk
    served: bool


def choose_disks(facts: DomainFacts | None, wanted: Sequence[WantedCopy]) -> tuple[DiskToCopy, ...]:
    """The disks of these volumes.

    Raises:
        WrongState: when there is no guest.
        BadRequest: when one of them is no disk of it that can be copied.
    """
    if facts is None or not facts.is_active:
        raise WrongState("there is no guest whose disks could be copied")
    found = {disk.name: disk for disk in facts.disks}
    return tuple(_choose_disk(found.get(each.volume), each) for each in wanted)


def _choose_disk(disk: DomainDisk | None, wanted: WantedCopy) -> DiskToCopy:
    at = f"volume {wanted.volume}"
    if disk is None or not disk.source:
        raise BadRequest(at, "the running guest does not have it as a disk", "restart the VM, or stop it first")
    if disk.device == "lun":
        raise BadRequest(at, "a LUN that is passed through cannot be copied while the guest runs", "stop the VM first")
    return DiskToCopy(wanted, disk, served=disk.device == "disk" and not disk.read_only)


def choose_quiesce(facts: DomainFacts) -> str:
    """How the guest is to be held still."""
    if facts.life is Life.PAUSED and facts.why is not Why.IO_ERROR:
        return PAUSED
    return GUEST_AGENT if facts.agent_connected and facts.life is Life.RUNNING else NO_GUEST_AGENT


def count_reserve(total: int) -> int:
    """How many bytes of a place of this size are left to the guest."""
    return min(RESERVE_BYTES, total // 10)


def is_short(free: int, total: int) -> bool:
    """Whether what the guest writes over can hardly be put aside any more."""
    return free < count_reserve(total)


def read_percent(said: Iterable[str]) -> int | None:
    """The last progress that qemu-img has printed, as `(12.34/100%)`; None when there is none."""
    for text in reversed(tuple(said)):
        number, slash, _ = text.strip(" ()").partition("/")
        try:
            value = float(number)
        except ValueError:
            continue
        # A number that is none, such as nan, is no progress.
        if slash and 0 <= value <= 100:
            return int(value)
    return None
