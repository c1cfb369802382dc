"""What a host or a setting that cannot be used is told, and that nothing half-made is left."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.cli.exits import Exit
from kvedge.standalone.agent.agent_service import AgentConfig
from tests.support.box import Box

pytestmark = [pytest.mark.machine, pytest.mark.timeout(180)]

CIDR = "10.95.0.0/24"


def standalone(data_dir: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`kvedge standalone` that is expected to refuse."""
    command = [sys.executable, "-m", "kvedge", "standalone", "--data-dir", str(data_dir), "--emulation", "tcg"]
    command += ["--pod-cidr", CIDR, *(more or ("--port", "0"))]
    found = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd="/", env=found)


def has_bridge(data_dir: Path) -> bool:
    """Whether the box of this directory has made its bridge; the host's other links are other tests'."""
    config = AgentConfig("n", data_dir, data_dir / "kubelet")
    return (Path("/sys/class/net") / config.network.bridge).exists()


def taken_link() -> str:
    command = ["ip", "-o", "addr", "show", "dev", "kve-taken"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path / "data", CIDR)
    yield found
    if found.data_dir.exists():
        found.remove()


def test_a_port_in_use_is_named_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = standalone(tmp_path / "data", "--port", str(port))
    assert done.returncode == Exit.HOST
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "choose another address or port" in done.stderr
    assert "Traceback" not in done.stderr
    assert not has_bridge(tmp_path / "data")


def test_a_second_one_on_the_same_data_is_refused_and_the_first_goes_on(box: Box) -> None:
    box.start()
    assert has_bridge(box.data_dir)
    done = standalone(box.data_dir)
    assert done.returncode == Exit.HOST
    assert "is in use by another kvedge standalone" in done.stderr
    assert "--data-dir" in done.stderr
    assert box.cli("get", "nodes").returncode == 0


def test_a_data_directory_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    state = tmp_path / "data" / "state"
    state.mkdir(parents=True)
    (state / "layout").write_text("99 7.0.0\n")
    done = standalone(tmp_path / "data")
    assert done.returncode == Exit.HOST
    assert "was written by kvedge 7.0.0" in done.stderr
    assert (state / "layout").read_text() == "99 7.0.0\n"
    assert not (state / "kvedge.db").exists()


def test_a_damaged_store_without_a_copy_is_refused_and_never_overwritten(box: Box) -> None:
    box.start()
    box.end()
    shutil.rmtree(box.data_dir / "backup")
    store = box.data_dir / "state" / "kvedge.db"
    for leftover in store.parent.glob("kvedge.db-*"):
        leftover.unlink()
    damaged = b"this is no database" * 1000
    store.write_bytes(damaged)
    done = standalone(box.data_dir)
    assert done.returncode == Exit.HOST
    assert "kvedge.db" in done.stderr
    assert "Traceback" not in done.stderr
    assert store.read_bytes() == damaged


def test_pod_addresses_that_the_host_uses_already_are_refused(tmp_path: Path) -> None:
    subprocess.run(["ip", "link", "add", "kve-taken", "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", "10.95.0.77/28", "dev", "kve-taken"], check=True)
        before = taken_link()
        done = standalone(tmp_path / "data")
        assert done.returncode == Exit.HOST
        assert "--pod-cidr" in done.stderr
        assert taken_link() == before
        assert not has_bridge(tmp_path / "data")
    finally:
        subprocess.run(["ip", "link", "del", "kve-taken"], check=True)


def test_a_host_without_qemu_is_told_what_to_install(box: Box, tmp_path: Path) -> None:
    # A PATH on which everything but QEMU is found.
    tools = tmp_path / "bin"
    tools.mkdir()
    for directory in ("/usr/sbin", "/usr/bin"):
        for entry in Path(directory).iterdir():
            if not entry.name.startswith("qemu-system") and not (tools / entry.name).exists():
                (tools / entry.name).symlink_to(entry)
    done = standalone(box.data_dir, PATH=str(tools))
    assert done.returncode == Exit.HOST, done.stderr
    assert "qemu" in done.stderr.lower()
    assert "Traceback" not in done.stderr
