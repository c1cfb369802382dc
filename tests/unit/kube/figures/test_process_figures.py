"""What a process tells of itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kvedge.kube.figures.process_figures import (
    forget_state,
    note_deprecated_machines,
    read_figures,
    register_state,
    tell_process,
)


def test_this_process_is_told_of_by_the_names_of_prometheus() -> None:
    figures = tell_process().figures
    assert figures.keys() == {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    }
    assert 0 < figures["process_start_time_seconds"] < time.time() + 1
    assert figures["process_virtual_memory_bytes"] > figures["process_resident_memory_bytes"] > 1 << 20


def test_a_name_with_brackets_and_spaces_does_not_move_the_columns(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(f"1 (a ) b) S {' '.join(['0'] * 18)} 200 0 0\n")
    (tmp_path / "boot").write_text("cpu 1\nbtime 1000\n")
    started = read_figures(tmp_path, tmp_path / "boot")["process_start_time_seconds"]
    assert started == 1000 + 200 / os.sysconf("SC_CLK_TCK")


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert read_figures(tmp_path, tmp_path / "stat").keys() == {"process_cpu_seconds_total", "process_max_fds"}


def test_states_are_told_from_when_a_role_has_started_until_it_has_stopped() -> None:
    held = [True]
    register_state("test-of-states", lambda: held[0])
    assert tell_process().states["test-of-states"]
    held[0] = False
    assert not tell_process().states["test-of-states"]
    forget_state("test-of-states")
    assert "test-of-states" not in tell_process().states


def test_of_a_nodes_machines_those_are_told_that_were_found_last() -> None:
    note_deprecated_machines(["pc-old", "pc-older"])
    assert tell_process().deprecated_machines == ["pc-old", "pc-older"]
    note_deprecated_machines([])
    assert tell_process().deprecated_machines == []


def test_a_process_is_the_same_each_time() -> None:
    assert tell_process().process == tell_process().process != ""
