"""When a node is probed again, and what becomes of the seed that was there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kvedge.handler.node import capability_seed
from kvedge.handler.node.capability_seed import ProbeError, ensure_seed

# Plays `kvedge launcher --probe DIRECTORY`: counts its runs, and names its seed by their number.
PROGRAM = """
import json, pathlib, sys
runs = pathlib.Path(sys.argv[1])
number = int(runs.read_text()) + 1
runs.write_text(str(number))
out = pathlib.Path(sys.argv[4])
(out / f"{number}.xml").write_text("seed")
(out / "capabilities.json").write_text(json.dumps({"host_cpu_model": f"m{number}"}))
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """How often the host was probed; a probe needs its QEMU to be of the present stamp."""
    counted, program = tmp_path / "runs", tmp_path / "program.py"
    counted.write_text("0")
    program.write_text(PROGRAM)
    monkeypatch.setattr(capability_seed, "program_command", lambda: [sys.executable, str(program), str(counted)])
    monkeypatch.setattr(capability_seed, "_stamp", lambda *, emulation: f"emulation {emulation}")
    return counted


def names(seed: Path) -> list[str]:
    return sorted(path.name for path in seed.iterdir())


def test_a_host_is_probed_once_until_something_about_it_changes(tmp_path: Path, runs: Path) -> None:
    seed = tmp_path / "seed"
    for _ in range(2):
        assert ensure_seed(seed, emulation=True).host_cpu_model == "m1"
    assert names(seed) == ["1.xml", "capabilities.json", "made-for"]
    assert ensure_seed(seed, emulation=False).host_cpu_model == "m2"
    assert runs.read_text() == "2"


def test_a_new_seed_takes_the_old_ones_place_under_the_launchers_that_have_it_mounted(
    tmp_path: Path, runs: Path
) -> None:
    seed = tmp_path / "seed"
    (seed / "bin").mkdir(parents=True)
    (seed / "bin/virsh").write_text("kept")
    ensure_seed(seed, emulation=True)
    mounted = seed.stat().st_ino
    ensure_seed(seed, emulation=False)
    assert seed.stat().st_ino == mounted
    assert names(seed) == ["2.xml", "bin", "capabilities.json", "made-for"]
    assert (seed / "bin/virsh").read_text() == "kept"
    assert not seed.with_name("seed.new").exists()


def test_a_torn_seed_is_made_anew(tmp_path: Path, runs: Path) -> None:
    seed = tmp_path / "seed"
    ensure_seed(seed, emulation=True)
    (seed / "capabilities.json").write_text("{")
    assert ensure_seed(seed, emulation=True).host_cpu_model == "m2"


def test_a_probe_that_fails_says_why_and_leaves_what_was_there(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = tmp_path / "seed"
    ensure_seed(seed, emulation=True)
    failing = "import sys; sys.exit('install qemu')"
    monkeypatch.setattr(capability_seed, "program_command", lambda: [sys.executable, "-c", failing])
    with pytest.raises(ProbeError, match="install qemu"):
        ensure_seed(seed, emulation=False)
    assert names(seed) == ["1.xml", "capabilities.json", "made-for"]
