"""tests/bench/run, each part at its smallest: what it measures is there, on a host without libvirt's own user."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.__main__ import PARTS
from tests.support.checkout_clone import REPOSITORY

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
# A row of each part; every figure of it is a number above zero.
SHOWN = {
    "start": "standalone until READY, later",
    "idle": "control plane at 0 VMIs, PSS",
    "single": "VMI created → Running, one VM",
    "writes": "API writes of the roles per VM, created → Running",
    "launcher": "per VM beyond guest and QEMU, the only VM, PSS",
    "burst": "1 VMIs, one each 100 ms: created → Running, p95",
    "cli": "kvedge version, warm (reference: the bare interpreter)",
}
# Those that are measured against a bare libvirt, or a bare interpreter.
COMPARED = {"single", "burst", "cli"}


@contextmanager
def without_the_distributions_user() -> Iterator[list[str]]:
    """What to put before a command, so that it finds no user and group libvirt-qemu: as on a fresh machine."""
    script = """
    for file in passwd group; do
        grep -v ^libvirt-qemu: /etc/$file > "$0.$file" && mount --bind "$0.$file" /etc/$file
    done
    exec "$@"
    """
    directory = Path(f"/run/kvedge-test-bench-{os.getpid()}")
    directory.mkdir()
    try:
        yield ["unshare", "--mount", "sh", "-euc", script, str(directory / "etc")]
    finally:
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All rows of one run with one VM, by their names."""
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    command = [str(REPOSITORY / "tests/bench/run"), "--runs", "1", "--vmis", "1", "--json", str(path)]
    with without_the_distributions_user() as before:
        done = subprocess.run([*before, *command], capture_output=True, text=True, timeout=500, check=False, cwd="/")
    # Goals are for an idle machine.
    assert done.returncode in (0, 1), done.stderr[-4000:]
    assert "Traceback" not in done.stderr, done.stderr[-4000:]
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return {row["what"]: row for row in rows}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_measures_at_its_smallest(part: str, measured: dict[str, dict[str, Any]]) -> None:
    row = measured[SHOWN[part]]
    assert row["measured"] > 0
    assert (row["reference"] is not None and row["reference"] > 0) == (part in COMPARED)
