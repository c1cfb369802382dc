"""`<clock>`: where the guest's real-time clock starts, and which timers it has.

Touches nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add, yes_no
from kvedge.resources.types.domain import Clock, DomainSpec, Timer, Timers


class _TimerKind(NamedTuple):
    """One timer: libvirt's name, and which tick policies libvirt's QEMU driver takes for it."""

    name: str
    policies: frozenset[str] = frozenset()


_TIMERS: Final[dict[str, _TimerKind]] = {
    "rtc": _TimerKind("rtc", frozenset({"delay", "catchup"})),
    "pit": _TimerKind("pit", frozenset({"delay", "catchup", "discard"})),
    # libvirt takes them all, and QEMU's HPET knows only one way.
    "hpet": _TimerKind("hpet", frozenset({"delay", "catchup", "merge", "discard"})),
    "kvm": _TimerKind("kvmclock"),
    "hyperv": _TimerKind("hypervclock"),
}
_TRACKS: Final = frozenset({"guest", "wall"})


def add_clock(domain: Element, spec: DomainSpec, platform: Platform, frequency: int | None = None) -> None:
    """UTC unless the VMI says a time zone; timers that are named are present unless it says otherwise. `frequency` is
    that of the guest's TSC, in Hz: None for whatever the host has.

    Raises:
        ConversionError: for a tick policy that the timer does not have.
    """
    clock = spec.clock or Clock()
    element = _add_offset(domain, clock)
    timers = clock.timer or Timers()
    for name, kind in _TIMERS.items():
        timer: Timer | None = getattr(timers, name)
        if timer is not None:
            _add_timer(element, name, kind, timer, platform)
    if frequency is not None:
        add(element, "timer", name="tsc", frequency=frequency)


def _add_offset(domain: Element, clock: Clock) -> Element:
    if clock.timezone:
        if clock.utc is not None:
            raise ConversionError("spec.domain.clock", "has both utc and timezone", "keep one of them")
        return add(domain, "clock", offset="timezone", timezone=clock.timezone)
    if clock.utc is not None and clock.utc.offset_seconds is not None:
        return add(domain, "clock", offset="variable", adjustment=clock.utc.offset_seconds, basis="utc")
    # Each run is a new domain: the guest's changes of its clock in an earlier run are lost.
    return add(domain, "clock", offset="utc", adjustment="reset")


def _add_timer(clock: Element, name: str, kind: _TimerKind, timer: Timer, platform: Platform) -> None:
    field = f"spec.domain.clock.timer.{name}"
    if platform.architecture == "aarch64":
        raise ConversionError(field, "is a timer of amd64 only", "remove it")
    if timer.tick_policy and timer.tick_policy not in kind.policies:
        remedy = f"use one of {', '.join(sorted(kind.policies))}" if kind.policies else "remove it"
        raise ConversionError(
            f"{field}.tickPolicy", f"the timer {name} has no policy {timer.tick_policy} in QEMU", remedy
        )
    if timer.track and (name != "rtc" or timer.track not in _TRACKS):
        raise ConversionError(f"{field}.track", f"{timer.track} is not supported", "use guest or wall, for rtc only")
    add(
        clock,
        "timer",
        name=kind.name,
        track=timer.track or None,
        tickpolicy=timer.tick_policy or None,
        present=yes_no(timer.present is not False),
    )
