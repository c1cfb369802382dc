"""The node's seed: what the probe writes, and that a launcher with it starts no QEMU but the guest's."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from kvedge.launcher.capability_probe import CAPABILITIES_FILE, probe
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.rpc import launcher_pb2 as m
from tests.support.launcher_pod import LauncherPod, launcher_pod

pytestmark = pytest.mark.machine


def cache(pod: LauncherPod) -> dict[str, tuple[int, int]]:
    """libvirt's records in a Pod: inode and change time by name. libvirt writes a new file whenever it has probed."""
    folder = pod.directory / "private/libvirt/cache/qemu/capabilities"
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("*.xml")}


def test_the_probe_says_what_the_node_can_do(seed: Path) -> None:
    told = json.loads((seed / CAPABILITIES_FILE).read_text())
    assert "qemu64" in told["cpu_models"]
    assert "sse2" in told["cpu_features"]
    assert "q35" in told["machine_types"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", told["libvirt_version"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", told["qemu_version"])
    assert told["emulator"].startswith("/usr/bin/qemu-system-")


def test_a_launcher_with_the_seed_probes_nothing(tmp_path: Path, seed: Path) -> None:
    with launcher_pod(tmp_path, seed=seed) as pod:
        pod.call("Ping")
        before = cache(pod)
        assert len(before) == 1
        assert pod.sync().state == m.DOMAIN_STATE_RUNNING
        assert cache(pod) == before
        # Nor for what is asked of a guest again and again: the host may have QEMUs of every architecture.
        assert pod.call("GetStats").figures["cpu.time"] > 0
        pod.call("GetDomain")
        assert cache(pod) == before


def test_a_stale_seed_costs_time_and_nothing_else(tmp_path: Path, seed: Path) -> None:
    stale = tmp_path / "stale"
    shutil.copytree(seed, stale)
    (record,) = stale.glob("*.xml")
    record.write_text(re.sub(r"<qemuctime>\d+<", "<qemuctime>1<", record.read_text()))
    with launcher_pod(tmp_path / "pod", seed=stale) as pod:
        pod.call("Ping")
        before = cache(pod)
        assert pod.sync().state == m.DOMAIN_STATE_RUNNING
        assert cache(pod)[record.name] != before[record.name]


def test_a_broken_seed_costs_time_and_nothing_else(tmp_path: Path, seed: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(seed, broken)
    (record,) = broken.glob("*.xml")
    record.write_bytes(record.read_bytes()[:1000])
    with launcher_pod(tmp_path / "pod", seed=broken) as pod:
        assert pod.sync().state == m.DOMAIN_STATE_RUNNING


def test_a_host_without_qemu_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # libvirt looks for emulators in PATH.
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LauncherError, match="install qemu-system-x86"):
        probe(tmp_path, emulation=True)
    assert list(tmp_path.iterdir()) == []
