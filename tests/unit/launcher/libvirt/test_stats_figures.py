"""What becomes of libvirt's list of figures: by part, by the VMI's names, and within bounds."""

from __future__ import annotations

from typing import Any

from kvedge.launcher.libvirt.stats_figures import MOST_PARTS, DomainFigures, PartFigures, sort_figures

NOW = 1_000_000.0
FOUND: dict[str, Any] = {
    "cpu.time": 3_000_000_000,
    "cpu.user": 1_000_000_000,
    "balloon.current": 65536,
    "balloon.maximum": 131072,
    "balloon.rss": 40000,
    "balloon.last-update": int(NOW) - 5,
    "balloon.unused": 1000,
    "balloon.available": 1 << 60,
    "balloon.major_fault": 7,
    "vcpu.current": 1,
    "vcpu.maximum": 2,
    "vcpu.0.state": 1,
    "vcpu.0.time": 5,
    "vcpu.1.state": 0,
    "block.count": 2,
    "block.0.name": "vda",
    "block.0.rd.bytes": 512,
    "block.1.name": "vdb",
    "block.1.path": "/x",
    "block.1.rd.bytes": 9,
    "net.count": 1,
    "net.0.name": "tap0",
    "net.0.rx.bytes": 77,
}


def sort(found: dict[str, Any], *, complete: bool = True) -> DomainFigures:
    return sort_figures(found, {"vda": "root"}, {"tap0": "default"}, NOW, complete=complete)


def test_parts_have_the_names_of_the_vmi_else_those_of_libvirt() -> None:
    found = sort(FOUND)
    assert found.disks == (PartFigures("root", {"rd.bytes": 512}), PartFigures("vdb", {"rd.bytes": 9}))
    assert found.nics == (PartFigures("default", {"rx.bytes": 77}),)
    assert found.vcpus == (PartFigures("0", {"time": 5}, "running"), PartFigures("1", {}, "offline"))


def test_a_guest_cannot_claim_more_memory_than_it_can_have() -> None:
    assert sort(FOUND).figures == {
        "cpu.time": 3_000_000_000,
        "cpu.user": 1_000_000_000,
        "balloon.current": 65536,
        "balloon.maximum": 131072,
        "balloon.rss": 40000,
        "balloon.unused": 1000,
        "balloon.available": 131072,
        "balloon.major_fault": 7,
    }


def test_what_a_guest_has_not_told_lately_is_left_out() -> None:
    for told in (0, int(NOW) - 31):
        figures = sort(FOUND | {"balloon.last-update": told}).figures
        assert "balloon.unused" not in figures
        assert "balloon.major_fault" not in figures
        assert figures["balloon.current"] == 65536


def test_the_host_knows_cpu_and_network_of_a_qemu_that_hangs() -> None:
    of_host = {key: value for key, value in FOUND.items() if not key.startswith(("balloon.", "block."))}
    found = sort(of_host, complete=False)
    assert (found.complete, found.disks) == (False, ())
    assert found.nics[0].figures == {"rx.bytes": 77}


def test_no_more_parts_than_the_bound_are_told_and_nonsense_is_left_out() -> None:
    many: dict[str, Any] = {
        "net.count": 10 * MOST_PARTS,
        "cpu.time": -1,
        "cpu.user": True,
        "net.x.name": "a",
        "net.": 1,
    }
    for number in range(2 * MOST_PARTS):
        many |= {f"net.{number}.name": f"tap{number}", f"net.{number}.rx.bytes": 1}
    found = sort(many)
    assert len(found.nics) == MOST_PARTS
    assert found.figures == {}
