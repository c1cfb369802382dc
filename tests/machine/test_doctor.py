"""The doctor on this machine: what it reads is what other tools say, and what it finds is told by exit code."""

from __future__ import annotations

import fcntl
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

from kvedge.appliance.doctor.findings import DoctorOptions
from kvedge.appliance.doctor.host_facts import HostFacts
from kvedge.appliance.doctor.host_reader import read_host


def read(data_dir: Path, port: int = 0) -> HostFacts:
    return read_host(
        DoctorOptions(str(data_dir), "10.99.0.0/24", "10.100.0.0/16", port, "tcg"), "kve-nobody", try_guest=False
    )


def test_versions_are_those_that_the_tools_tell(tmp_path: Path) -> None:
    facts = read(tmp_path)
    said = subprocess.run(["qemu-img", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version (\S+)", said)
    assert version is not None
    assert version.group(1).startswith(".".join(str(part) for part in facts.qemu[:2]))
    assert facts.libvirt >= (9, 0)
    assert facts.libvirt_qemu_driver
    assert facts.devices["/dev/net/tun"].exists


def test_a_port_that_is_taken_and_a_directory_in_use_are_seen(tmp_path: Path) -> None:
    assert not read(tmp_path).kvedge_runs
    (tmp_path / "state").mkdir()
    with (tmp_path / "state" / "lock").open("w") as lock, socket.socket() as taken:
        fcntl.flock(lock, fcntl.LOCK_EX)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        facts = read(tmp_path, taken.getsockname()[1])
        assert facts.kvedge_runs
        assert facts.port_refusal == "another program has it"


def test_the_mount_that_holds_the_data_directory_is_the_one_judged(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,noexec", "none", tmp_path], check=True)
    try:
        disk = read(tmp_path / "not" / "yet" / "there").disk
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert (disk.path, disk.kind) == (str(tmp_path), "tmpfs")
    assert "noexec" in disk.options
    assert 0 < disk.free <= 1 << 20


def test_sharing_blocks_is_tried_on_the_disk_itself_and_leaves_nothing(tmp_path: Path) -> None:
    image, place = tmp_path / "image", tmp_path / "place"
    place.mkdir()
    for reflink in (True, False):
        image.unlink(missing_ok=True)
        with image.open("wb") as file:
            file.truncate(320 << 20)
        subprocess.run(["mkfs.xfs", "-q", "-m", f"reflink={int(reflink)}", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, place], check=True)
        try:
            assert read(place).disk.shares_blocks is reflink
            assert list(place.iterdir()) == []
        finally:
            subprocess.run(["umount", place], check=True)


def test_a_host_that_is_not_fit_is_told_by_exit_code_five(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    command = [sys.executable, "-m", "kvedge", "doctor", "--no-guest", "--data-dir", str(tmp_path), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    findings = {item["check"]: item for item in json.loads(done.stdout)}
    assert findings["data directory"]["level"] == "fail"
    assert "chmod 755" in findings["data directory"]["remedy"]
    assert done.stderr.startswith("error: this host is not fit: ")
