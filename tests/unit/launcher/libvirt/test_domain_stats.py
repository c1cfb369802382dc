"""What libvirt is asked for: without QEMU only what the host knows, and nothing that waits."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from kvedge.launcher.launcher_errors import DomainMissing
from kvedge.launcher.libvirt.stats_figures import DomainFigures
from tests.support.needs import NEEDS_LIBVIRT

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_stats import DomainDirtyRate

pytestmark = NEEDS_LIBVIRT
# As VIR_DOMAIN_DIRTYRATE_MEASURED.
MEASURED = 2
DOCUMENT = """<domain><devices>
<disk device="disk"><source file="/disk"/><target dev="vda"/><alias name="ua-root"/></disk>
<interface><mac address="02:00:00:00:00:01"/><target dev="tap0"/><alias name="ua-default"/></interface>
</devices></domain>"""


def read(connection: Connection, domain: Domain, *, ask_qemu: bool, pid: int = 0) -> DomainFigures:
    from kvedge.launcher.libvirt.domain_stats import read_figures

    return read_figures(connection, domain, pid, ask_qemu=ask_qemu)


def asks_qemu(groups: int) -> bool:
    import libvirt

    return bool(groups & (libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_BLOCK))


class Domain:
    """A domain that runs, or does not."""

    def __init__(self, *, runs: bool = True) -> None:
        self._runs = runs

    def isActive(self) -> bool:  # libvirt's name
        return self._runs

    def XMLDesc(self) -> str:  # libvirt's name
        return DOCUMENT

    def info(self) -> list[int]:
        return [1, 3, 2, 1, 5]

    def vcpuPinInfo(self) -> list[tuple[bool, ...]]:  # libvirt's name
        return [(True, False, True), (False, False, True)]


class Connection:
    """libvirt, which tells of QEMU what QEMU tells."""

    def __init__(self, *, busy: bool = False) -> None:
        self._busy = busy
        self.groups = 0

    def domainListGetStats(  # libvirt's name
        self, domains: list[Domain], groups: int, flags: int
    ) -> list[tuple[Domain, dict[str, object]]]:
        import libvirt

        assert flags & libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        # For these libvirt probes every QEMU of the host.
        assert not groups & libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
        self.groups = groups
        found: dict[str, object] = {"net.count": 1, "net.0.name": "tap0", "net.0.rx.bytes": 1}
        if asks_qemu(groups) and not self._busy:
            found |= {"balloon.current": 1, "block.count": 1, "block.0.name": "vda", "block.0.rd.bytes": 2}
        return [(domains[0], found)]


def test_disks_and_nics_have_the_vmis_names() -> None:
    found = read(Connection(), Domain(), ask_qemu=True)
    assert (found.complete, found.figures) == (True, {"cpu.affinity": 3, "balloon.current": 1})
    assert [part.name for part in (*found.disks, *found.nics)] == ["root", "default"]


def test_qemu_is_asked_only_when_it_is_to_be() -> None:
    connection = Connection()
    found = read(connection, Domain(), ask_qemu=False)
    assert not asks_qemu(connection.groups)
    assert (found.complete, [part.name for part in found.nics]) == (False, ["default"])
    assert found.figures["balloon.current"] == 2


def test_where_another_call_has_the_domain_the_figures_are_not_complete() -> None:
    assert not read(Connection(busy=True), Domain(), ask_qemu=True).complete


def test_a_domain_that_does_not_run_has_none() -> None:
    with pytest.raises(DomainMissing):
        read(Connection(), Domain(runs=False), ask_qemu=True)


def test_cpu_time_is_that_of_qemu_in_nanoseconds() -> None:
    before = os.times()
    figures = read(Connection(), Domain(), ask_qemu=False, pid=os.getpid()).figures
    assert figures["cpu.time"] == figures["cpu.user"] + figures["cpu.system"]
    # Those of a tick that is half over are not counted.
    assert (before.user - 0.02) * 10**9 <= figures["cpu.user"] <= round(os.times().user * 10**9)
    assert (before.system - 0.02) * 10**9 <= figures["cpu.system"] <= round(os.times().system * 10**9)


def test_a_qemu_that_has_just_ended_has_no_cpu_time() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert "cpu.time" not in read(Connection(), Domain(), ask_qemu=False, pid=child.pid).figures


class MeasuredDomain:
    """A domain, and what QEMU was told to measure."""

    def __init__(self, backing: str = "") -> None:
        self._backing = backing
        self.asked: list[int] = []

    def XMLDesc(self) -> str:  # libvirt's name
        return f"<domain>{self._backing}<devices/></domain>"

    def startDirtyRateCalc(self, seconds: int, flags: int) -> None:  # libvirt's name
        self.asked.append(seconds)


class Measurements:
    """libvirt with one answer."""

    def __init__(self, **found: int) -> None:
        self._found = {f"dirtyrate.{name}": value for name, value in found.items()}

    def domainListGetStats(  # libvirt's name
        self, domains: list[MeasuredDomain], groups: int, flags: int
    ) -> list[tuple[MeasuredDomain, dict[str, int]]]:
        return [(domains[0], self._found)]


def rate_of(domain: MeasuredDomain, connection: Measurements) -> DomainDirtyRate:
    from kvedge.launcher.libvirt.domain_stats import DomainDirtyRate

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
    assert rate_of(MeasuredDomain(), Measurements(**found)).read() == rate


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
    domain = MeasuredDomain(backing)
    rate_of(domain, Measurements()).begin()
    assert domain.asked == asked
