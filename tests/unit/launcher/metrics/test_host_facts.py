"""What the kernel tells of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.metrics.host_facts import (
    HostFacts,
    parse_cpu_seconds,
    parse_swapped,
    read_host_facts,
)


def test_the_time_of_all_cpus_is_that_of_users_nice_ones_and_the_kernel() -> None:
    assert parse_cpu_seconds("cpu  100 20 30 4000 5 6 7 0 0 0\ncpu0 1 2 3 4\n", 100) == 1.5


@pytest.mark.parametrize("text", ["", "cpu", "cpu 1 2", "cpu 1 x 3 4", "intr 1 2 3 4"])
def test_a_time_that_is_not_told_is_not_known(text: str) -> None:
    assert parse_cpu_seconds(text, 100) < 0


def test_pages_that_were_swapped_are_kibibytes() -> None:
    assert parse_swapped("nr_free_pages 5\npswpin 3\npswpout 1\n", 4096) == {"pswpin": 12, "pswpout": 4}


def test_a_host_is_read_of_its_files(tmp_path: Path) -> None:
    for cpu, package in (("cpu0", "0"), ("cpu1", "0"), ("cpu2", "1")):
        place = tmp_path / "devices/system/cpu" / cpu / "topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{package}\n")
    (tmp_path / "meminfo").write_text("MemFree: 5 kB\n")
    facts = read_host_facts(str(tmp_path), str(tmp_path))
    assert (facts.sockets, facts.memory, facts.cpu_seconds < 0, facts.swapped) == (2, {"MemFree": 5}, True, {})


def test_a_host_that_shows_nothing_has_no_facts(tmp_path: Path) -> None:
    assert read_host_facts(str(tmp_path), str(tmp_path)) == HostFacts()


def test_this_host_tells() -> None:
    facts = read_host_facts()
    assert facts.cpu_seconds > 0
    assert facts.memory["MemTotal"] > facts.memory["MemFree"]
