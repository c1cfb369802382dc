"""From libvirt's flat list of what a guest has used to figures of the guest, its vCPUs, disks and NICs.

Called by `domain_stats`; its result leaves the door to libvirt. Pure. The figures of memory come from the guest, which
may claim anything: they are bounded by the memory that it can have, and left out when the guest has not told them
lately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

# More disks, NICs or vCPUs than that are not told.
MOST_PARTS: Final = 512
# The guest's driver tells every ten seconds: see the element of the balloon.
_FRESH_SECONDS: Final = 30
# What the host knows of the memory; the rest is the guest's word.
_HOST_MEMORY: Final = ("balloon.current", "balloon.maximum", "balloon.rss")
_GUEST_SIZES: Final = ("balloon.available", "balloon.unused", "balloon.usable", "balloon.disk_caches")
_GUEST_COUNTS: Final = ("balloon.swap_in", "balloon.swap_out", "balloon.major_fault", "balloon.minor_fault")
_CPU: Final = ("cpu.time", "cpu.user", "cpu.system", "cpu.affinity")
# As VIR_VCPU_OFFLINE, RUNNING and BLOCKED.
_VCPU_STATES: Final = {0: "offline", 1: "running", 2: "blocked"}
_LARGEST: Final = (1 << 63) - 1


class PartFigures(NamedTuple):
    """Those of one vCPU, disk or NIC."""

    name: str
    figures: Mapping[str, int]
    state: str = ""


class DomainFigures(NamedTuple):
    """All of one guest; `complete` when QEMU was asked."""

    complete: bool
    figures: Mapping[str, int]
    vcpus: tuple[PartFigures, ...] = ()
    disks: tuple[PartFigures, ...] = ()
    nics: tuple[PartFigures, ...] = ()


def sort_figures(
    found: Mapping[str, object], disks: Mapping[str, str], nics: Mapping[str, str], now: float, *, complete: bool
) -> DomainFigures:
    """Args:
    found: as libvirt names them: `block.0.rd.bytes`.
    disks: the VMI's disk of each target.
    nics: the VMI's interface of each tap.
    now: seconds since 1970.
    complete: whether QEMU was asked.
    """
    return DomainFigures(
        complete=complete,
        figures={name: whole for name in _CPU if (whole := _whole(found.get(name))) is not None} | _memory(found, now),
        vcpus=tuple(_vcpus(found)),
        disks=tuple(_name_parts(_parts(found, "block", _count(found, "block.count")), disks)),
        nics=tuple(_name_parts(_parts(found, "net", _count(found, "net.count")), nics)),
    )


def _vcpus(found: Mapping[str, object]) -> Iterator[PartFigures]:
    for number, _, figures in _parts(found, "vcpu", _count(found, "vcpu.maximum")):
        state = _VCPU_STATES.get(figures.pop("state", -1), "unknown")
        yield PartFigures(number, figures, state)


def _name_parts(parts: Iterator[tuple[str, str, dict[str, int]]], names: Mapping[str, str]) -> Iterator[PartFigures]:
    """Those with the VMI's name, else libvirt's."""
    return (PartFigures(names.get(target) or target, figures) for _, target, figures in parts if target)


def _memory(found: Mapping[str, object], now: float) -> dict[str, int]:
    figures = {name: whole for name in _HOST_MEMORY if (whole := _whole(found.get(name))) is not None}
    told = _whole(found.get("balloon.last-update")) or 0
    if not told or now - told > _FRESH_SECONDS:
        return figures
    most = figures.get("balloon.maximum", 0)
    for name in _GUEST_SIZES:
        if (whole := _whole(found.get(name))) is not None:
            figures[name] = min(whole, most)
    for name in _GUEST_COUNTS:
        if (whole := _whole(found.get(name))) is not None:
            figures[name] = whole
    return figures


def _parts(found: Mapping[str, object], group: str, count: int) -> Iterator[tuple[str, str, dict[str, int]]]:
    """The parts of a group in order: number, name, figures. Linear in what was found."""
    figures: dict[int, dict[str, int]] = {}
    names: dict[int, str] = {}
    for key, value in found.items():
        head, _, rest = key.partition(".")
        digits, _, what = rest.partition(".")
        if head != group or not what or not digits.isdecimal() or int(digits) >= count:
            continue
        if what == "name":
            names[int(digits)] = str(value)
        elif (whole := _whole(value)) is not None:
            figures.setdefault(int(digits), {})[what] = whole
    for number in sorted(figures):
        yield str(number), names.get(number, ""), figures[number]


def _count(found: Mapping[str, object], name: str) -> int:
    return min(_whole(found.get(name)) or 0, MOST_PARTS)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        return None
    return value
