"""How fast memory changes: in bytes, once it was measured, and never where a look would cost memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.needs import NEEDS_LIBVIRT

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_dirty_rate import DomainDirtyRate

pytestmark = NEEDS_LIBVIRT
MEASURED = 2


class Domain:
    """A domain, and what QEMU was told to measure."""

    def __init__(self, backing: str = "") -> None:
        self._backing = backing
        self.asked: list[int] = []

    def XMLDesc(self) -> str:  # libvirt's name
        return f"<domain>{self._backing}<devices/></domain>"

    def startDirtyRateCalc(self, seconds: int, flags: int) -> None:  # libvirt's name
        self.asked.append(seconds)


class Connection:
    """libvirt with one answer."""

    def __init__(self, **found: int) -> None:
        self._found = {f"dirtyrate.{name}": value for name, value in found.items()}

    def domainListGetStats(  # libvirt's name
        self, domains: list[Domain], groups: int, flags: int
    ) -> list[tuple[Domain, dict[str, int]]]:
        return [(domains[0], self._found)]


def rate_of(domain: Domain, connection: Connection) -> DomainDirtyRate:
    from kvedge.launcher.libvirt.domain_dirty_rate import DomainDirtyRate

    return DomainDirtyRate(connection, lambda: domain)


@pytest.mark.parametrize(
    ("found", "rate"),
    [
        ({"calc_status": MEASURED, "megabytes_per_second": 54}, 54 << 20),
        ({"calc_status": MEASURED, "megabytes_per_second": 0}, 0),
        ({"calc_status": 1}, None),
        ({}, None),
    ],
    ids=["measured", "an idle guest", "not over", "not known"],
)
def test_only_what_was_measured_is_told(found: dict[str, int], rate: int | None) -> None:
    assert rate_of(Domain(), Connection(**found)).read() == rate


@pytest.mark.parametrize(
    ("backing", "asked"),
    [
        ("", [1]),
        ("<memoryBacking><hugepages/></memoryBacking>", [1]),
        ("<memoryBacking><source type='memfd'/></memoryBacking>", []),
        ("<memoryBacking><access mode='shared'/></memoryBacking>", []),
    ],
    ids=["anonymous", "huge pages", "a file", "shared"],
)
def test_memory_that_is_a_file_is_not_looked_at(backing: str, asked: list[int]) -> None:
    domain = Domain(backing)
    rate_of(domain, Connection()).begin()
    assert domain.asked == asked
