# Tests: kvedge/standalone/agent/warm/warm_parent.py, kvedge/standalone/agent/warm/warm_starts.py
# Tests: kvedge/launcher/warm_launcher.py, kvedge/launcher/libvirt/log_settings.py
"""Launchers that are copies of a warm parent: as those that start apart, and as independent of everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.bench_guest import bench_vmi
from tests.support.box import Box, processes
from tests.support.guest_box import left_behind
from tests.support.process_looks import look_at

pytestmark = [pytest.mark.machine, pytest.mark.timeout(280)]

# The first two start apart, as a parent pays from the third on.
APART, WARM = ("apart-1", "apart-2"), ("warmm-1", "warmm-2")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.97.61.0/24")
    found.options += ["--launcher-start", "warm"]
    found.data_dir.mkdir()
    try:
        found.start()
        for name in (*APART, *WARM):
            run(found, name)
        yield found
    finally:
        found.remove()
    assert [line for line in left_behind(found, "nothing") if line.startswith("process")] == []


def run(box: Box, name: str) -> str:
    """A guest without a disk; its VMI's UID."""
    box.apply(bench_vmi(name, network=True))
    return box.wait_phase(name, "Running").metadata.uid


def parents(box: Box) -> list[int]:
    """The processes of this box from which launchers are forked."""
    own = str(box.process.pid) if box.process else ""
    return [
        pid
        for pid, words in processes()
        if "warm-launchers" in words and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == own
    ]


def launcher(box: Box, name: str) -> int:
    """The launcher proper, which is its monitor's child."""
    vmi = box.vmi(name)
    assert vmi is not None
    return box.launcher_pids(vmi.metadata.uid)[-1]


def is_warm(pid: int) -> bool:
    """Whether a launcher has the parent's layout: it has loaded what only a preparation needs."""
    return "pycdlib" in Path(f"/proc/{pid}/maps").read_text()


def test_a_warm_launcher_is_as_one_that_starts_apart(box: Box) -> None:
    looks = []
    for name in ("apart-2", "warmm-2"):
        vmi = box.vmi(name)
        assert vmi is not None
        (pod,) = box.pods(vmi)
        own = {pod.metadata.name: "POD", name: "NAME", vmi.metadata.uid: "VMI", pod.metadata.uid: "UID"}
        looks.append(look_at(launcher(box, name), own))
    apart, warm = looks

    assert {key: (value, warm[key]) for key, value in apart.items() if warm[key] != value} == {}
