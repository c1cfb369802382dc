"""What a box's Node says of its host."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from kvedge.resources.names import GUESTFS_LABEL
from kvedge.standalone.agent.node.node_manifest import (
    has_guestfs,
    node_labels,
    node_status,
    read_host_facts,
    read_huge_pages,
)


def test_a_host_has_guestfs_with_its_program_and_an_appliance(tmp_path: Path) -> None:
    assert not has_guestfs(str(tmp_path))
    for name in ("usr/bin/guestfish", *(f"usr/local/lib/guestfs/appliance/{part}" for part in ("kernel", "initrd"))):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert not has_guestfs(str(tmp_path)), "the appliance is not whole"
    (tmp_path / "usr/local/lib/guestfs/appliance/root").touch()
    assert has_guestfs(str(tmp_path))


def test_a_node_says_whether_it_has_guestfs(tmp_path: Path) -> None:
    facts = read_host_facts("box", tmp_path)
    assert node_labels(facts)[GUESTFS_LABEL] == "false"
    assert node_labels(facts, guestfs=True)[GUESTFS_LABEL] == "true"


def test_huge_pages_are_read_by_their_size(tmp_path: Path) -> None:
    assert read_huge_pages(str(tmp_path)) == {}, "a kernel without them"
    for size, count in ((2048, "40\n"), (1048576, "0\n")):
        place = tmp_path / f"sys/kernel/mm/hugepages/hugepages-{size}kB"
        place.mkdir(parents=True)
        (place / "nr_hugepages").write_text(count)
    assert read_huge_pages(str(tmp_path)) == {"hugepages-2Mi": 80 << 20, "hugepages-1Gi": 0}


def test_what_is_in_huge_pages_is_no_memory_for_others(tmp_path: Path) -> None:
    facts, now = read_host_facts("box", tmp_path), datetime(2026, 1, 1, tzinfo=UTC)
    plain, paged = (node_status(facts, ({}, {}), pages, (), (), now) for pages in ({}, {"hugepages-2Mi": 80 << 20}))
    assert paged["capacity"]["hugepages-2Mi"] == paged["allocatable"]["hugepages-2Mi"] == str(80 << 20)
    assert paged["capacity"]["memory"] == plain["capacity"]["memory"]
    assert int(plain["allocatable"]["memory"]) - int(paged["allocatable"]["memory"]) == 80 << 20
