"""Rules for ranges of ports that reach a masqueraded guest, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, unsupported_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.types.devices import PortRange

_GATE: Final = "PortRangesSpec"
_MOST: Final = 10
_PORTS: Final = range(1, 65536)


def port_ranges_are_possible(subject: Subject) -> Iterator[Cause]:
    """Ranges stand in place of ports, on masquerade alone, and say each port once."""
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if not interface.port_ranges:
            continue
        at = subject.devices_at.at("interfaces").item(index).at("portRanges")
        if not subject.cluster.configuration.gates.is_on(_GATE):
            yield unsupported_cause(
                at, f"portRanges is specified on interface but the {_GATE} feature gate is not enabled"
            )
            continue
        if interface.ports:
            yield Cause(at, "Cannot define both ports and portRanges on interface")
        if interface.masquerade is None:
            yield Cause(at, "portRanges are only supported on masquerade interfaces")
        if len(interface.port_ranges) > _MOST:
            yield Cause(at, f"No more than {_MOST} portRanges are allowed")
            continue
        for number, each in enumerate(interface.port_ranges):
            yield from _check_range(each, at.item(number))
        yield from _check_overlaps(interface.port_ranges, at)


def _check_range(given: PortRange, at: Field) -> Iterator[Cause]:
    if given.protocol not in ("TCP", "UDP"):
        yield Cause(at.at("protocol"), "Unknown protocol, only TCP or UDP allowed")
    for name, port in (("Start", given.start), ("End", given.end)):
        if port not in _PORTS:
            yield Cause(at.at(name.lower()), f"{name} must be a valid port number, 0 < x < 65536")
    if given.start > given.end:
        yield Cause(at, "Start must be less than or equal to end")


def _check_overlaps(ranges: list[PortRange], at: Field) -> Iterator[Cause]:
    for protocol in ("TCP", "UDP"):
        ours = sorted((each.start, each.end) for each in ranges if each.protocol == protocol)
        for (start, end), (other, last) in pairwise(ours):
            if other <= end:
                yield Cause(at, f"{protocol} portRanges [{start}-{end}] and [{other}-{last}] overlap")


RULES: Final[tuple[Rule, ...]] = (port_ranges_are_possible,)
