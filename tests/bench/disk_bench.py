"""Measures what a guest reads from and writes to a claim, against the same QEMU that was started by hand.

    python -m tests.bench.disk_bench [--mib 256] [--requests 2000] [--runs 5]

Needs root and gcc. Both guests boot the same image and have a raw file of the same file system, opened directly; a
program in the guest, compiled here, asks the disk past the guest's cache. The two are measured in turns, each first in
every second one. The bare guest has the CPU model of emulated VMs, and a cgroup beside the VM's with the same share of
the host's CPUs: without it, it wins on every host that has other things to do.

The bare guest has its disks and a NIC, and none of the devices that a VM has by default. Each of those is looked at by
QEMU's loop for every request, so that a VM is a few hundredths slower; its serial ports were the worst of them. The CPU
time of both is told as well: it wavers less than the time on a loaded host.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from kvedge.launcher.cloudinit.iso import write_iso
from kvedge.standalone.agent.container.cgroups import Cgroups
from kvedge.standalone.agent.container.container_plan import pod_limits
from tests.bench.process_memory import cpu_seconds
from tests.bench.report import Goal, Report, Row, median, missed
from tests.support.box import Box
from tests.support.guest import build_guest
from tests.support.hotplug_guest import USER_DATA, HotplugGuest, a_claim, hotplug_vm
from tests.support.ports import free_port
from tests.support.waiting import wait_until

_NAME: Final = "disk"
_IMAGE: Final = "local/disk-bench:1"
# A hundredth may be lost three times: see the goal of the rows.
_RATIO: Final = 1 / 0.97
_PROGRAM: Final = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
/* io DEVICE read|write SIZE COUNT random|forward: seconds of so many requests, one after the other */
int main(int argc, char **argv) {
    int writes = !strcmp(argv[2], "write"), chance = !strcmp(argv[5], "random");
    long size = atol(argv[3]), count = atol(argv[4]);
    int file = open(argv[1], (writes ? O_WRONLY : O_RDONLY) | O_DIRECT);
    void *buffer;
    if (argc != 6 || file < 0 || posix_memalign(&buffer, 4096, size)) return 1;
    memset(buffer, 7, size);
    long blocks = lseek(file, 0, SEEK_END) / size;
    struct timespec begun, ended;
    unsigned seed = 1;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long i = 0; i < count; i++) {
        long place = (chance ? rand_r(&seed) % blocks : i % blocks) * size;
        if ((writes ? pwrite(file, buffer, size, place) : pread(file, buffer, size, place)) != size) return 2;
    }
    if (writes && fsync(file)) return 3;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%.6f\n", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) / 1e9);
    return 0;
}
"""


class _Guest:
    """A guest that runs commands, and its disk that is measured."""

    def __init__(self, url: str, disk: str, qemu: int) -> None:
        self._url, self.disk, self.qemu = url, disk, psutil.Process(qemu)

    def run(self, command: str, seconds: float = 20.0) -> str:
        """What a command prints in the guest; empty when it does not answer."""
        asked = ["curl", "-sf", "--noproxy", "*", "--max-time", str(seconds), "--data-binary", "@-"]
        done = subprocess.run([*asked, f"{self._url}cgi-bin/run"], input=command, capture_output=True, text=True)
        return done.stdout


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/disk_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=256, help="read or written from the beginning on (256)")
    parser.add_argument("--requests", type=int, default=2000, help="of 4 KiB, anywhere on the disk (2000)")
    parser.add_argument("--runs", type=int, default=5, help="of which the median is taken (5)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/disk_bench: needs root, as kvedge standalone does\n")
        return 5
    report, directory = Report(), Path(tempfile.mkdtemp(prefix="kvbench-", dir="/var/tmp"))
    try:
        directory.chmod(0o755)
        with (
            _vm(directory, options.mib) as (box, ours),
            _by_hand(directory, options.mib) as bare,
            _beside(box, bare),
        ):
            _measure(ours, _answering(bare), options, report)
    finally:
        shutil.rmtree(directory)
    report.notes.append(f"medians of {options.runs}, taken in turns; load {os.getloadavg()[0]:.1f} at the end")
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _measure(ours: _Guest, bare: _Guest, options: argparse.Namespace, report: Report) -> None:
    program = _program()
    for guest in (ours, bare):
        guest.run(f"base64 -d >/tmp/io <<END\n{program}\nEND\nchmod 755 /tmp/io", 120)
    kinds = {
        "in a row, 1 MiB each": (1 << 20, options.mib, "forward"),
        "of 4 KiB at random": (4096, options.requests, "random"),
    }
    for what, (size, count, order) in kinds.items():
        # What is read has been written before.
        for verb in ("write", "read"):
            taken: dict[_Guest, list[float]] = {ours: [], bare: []}
            cpu: dict[_Guest, list[float]] = {ours: [], bare: []}
            for number in range(options.runs):
                for guest in (ours, bare) if number % 2 else (bare, ours):
                    before = cpu_seconds([guest.qemu])
                    taken[guest].append(float(guest.run(f"/tmp/io {guest.disk} {verb} {size} {count} {order}", 300)))
                    cpu[guest].append(cpu_seconds([guest.qemu]) - before)
            row = Row(
                f"{count} requests to {verb}, {what}", "s", median(taken[ours]), median(taken[bare]), Goal(ratio=_RATIO)
            )
            report.add(row)
            report.add(Row("CPU time of its QEMU", "s", median(cpu[ours]), median(cpu[bare])))


def _program() -> str:
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "io"
        command = ["gcc", "-O2", "-static", "-s", "-x", "c", "-", "-o", str(binary)]
        subprocess.run(command, input=_PROGRAM.encode(), check=True)
        return base64.encodebytes(binary.read_bytes()).decode()


@contextmanager
def _vm(directory: Path, mib: int) -> Iterator[tuple[Box, _Guest]]:
    box = Box(directory / "data", f"10.93.{os.getpid() % 256}.0/24", log_level="info")
    box.data_dir.mkdir()
    try:
        box.import_image(build_guest().disk, _IMAGE)
        box.start()
        box.apply(a_claim("data", resources={"requests": {"storage": f"{mib * 2}Mi"}}))
        box.apply(hotplug_vm(_NAME, _IMAGE, "data"))
        box.wait_phase(_NAME, "Running")
        box.wait_answer(_NAME)
        guest = HotplugGuest(box, _NAME)
        guest.wait_answer()
        vmi = guest.vmi()
        (qemu,) = box.qemu_pids(vmi.metadata.uid)
        yield box, _answering(_Guest(f"http://{vmi.status.interfaces[0].ip_address}/", guest.disk("data"), qemu))
    finally:
        box.remove()


@contextmanager
def _by_hand(directory: Path, mib: int) -> Iterator[_Guest]:
    disk, data, seed = (directory / name for name in ("root.qcow2", "data.img", "seed.iso"))
    shutil.copy(build_guest().disk, disk)
    with data.open("wb") as file:
        file.truncate(mib << 21)
    write_iso(seed, "cidata", {"meta-data": b"instance-id: bench\n", "user-data": USER_DATA.encode()})
    port, direct = free_port(), "if=none,cache=none,aio=threads"
    drives = {disk: "format=qcow2", data: "format=raw,discard=unmap", seed: "format=raw,readonly=on"}
    command = ["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", "128"]
    command += ["-display", "none", "-nodefaults"]
    for number, (path, form) in enumerate(drives.items()):
        command += ["-drive", f"file={path},id=d{number},{direct},{form}", "-device", f"virtio-blk-pci,drive=d{number}"]
    command += ["-netdev", f"user,id=n,hostfwd=tcp:127.0.0.1:{port}-:80", "-device", "virtio-net-pci,netdev=n"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield _Guest(f"http://127.0.0.1:{port}/", "/dev/vdb", process.pid)
    finally:
        process.kill()
        process.wait()


@contextmanager
def _beside(box: Box, bare: _Guest) -> Iterator[None]:
    """Give the bare guest the share of this host's CPUs that the VM's Pod has."""
    vmi = box.vmi(_NAME)
    assert vmi is not None
    (pod,) = box.pods(vmi)
    cgroups = Cgroups(_instance(vmi.metadata.uid, box))
    try:
        for file in cgroups.create("bare", pod_limits(pod)):
            Path(file).write_text(str(bare.qemu.pid))
        yield
    finally:
        bare.qemu.kill()
        bare.qemu.wait()
        cgroups.remove("bare")


def _instance(uid: str, box: Box) -> str:
    """The name under which the box keeps the cgroups of its Pods."""
    (qemu,) = box.qemu_pids(uid)
    lines = Path(f"/proc/{qemu}/cgroup").read_text().splitlines()
    return next(Path(path).parent.name for line in lines for path in line.split(":", 2)[2:] if "/kvedge/" in path)


def _answering(guest: _Guest) -> _Guest:
    wait_until(lambda: guest.run("echo up") == "up\n", "the guest runs commands", 180)
    return guest


if __name__ == "__main__":
    sys.exit(main())
