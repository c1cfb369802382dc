"""A node that cannot serve a guest by passt says why, before the guest starts."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from kvedge.launcher.passt import passt_program
from kvedge.launcher.passt.passt_program import find_obstacle, judge_descriptors
from kvedge.rpc.launcher_pb2 import Passt

LISTED = [Passt(nic="eth0", tcp=[80])]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A passt that the test writes."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "passt"


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_node_without_passt_names_the_package_and_another_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = find_obstacle(LISTED)
    assert found == ("this node has no passt", "install the package passt on the node, or use masquerade: {}")


def test_a_passt_that_takes_no_connection_is_too_old(program: Path) -> None:
    write(program, "echo '  -s, --socket PATH' >&2; exit 1")
    found = find_obstacle(LISTED)
    assert found is not None
    assert "older than November 2022" in found[0]


def test_a_passt_that_hangs_is_none(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(program, "exec sleep 60")
    monkeypatch.setattr(passt_program, "_SECONDS", 0.2)
    assert find_obstacle(LISTED) is not None


def test_options_are_read_from_what_passt_prints_as_an_error(program: Path) -> None:
    write(program, "echo '  -F, --fd FD' >&2; exit 1")
    assert find_obstacle(LISTED) is None


def test_all_ports_need_more_open_files_than_some_nodes_have() -> None:
    everything = [Passt(nic="eth0", all_ports=True)]
    found = judge_descriptors(everything, 20_000)
    assert found is not None
    assert (found[0].startswith("for all ports passt has 11"), "list the guest's ports" in found[1]) == (True, True)
    assert judge_descriptors(everything, 524_288) is None
    assert judge_descriptors(everything, resource.RLIM_INFINITY) is None
    assert judge_descriptors(LISTED, 1024) is None
