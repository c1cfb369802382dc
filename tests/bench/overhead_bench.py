"""Measures what VMs of many shapes hold beyond their guests' memory, against what is reserved for them.

    python -m tests.bench.overhead_bench [--runs 3] [--shape WORDS] [--kvm]

Needs root. Each guest is put under load: it fills its memory, writes and reads its disks, and serves and fetches pages,
while the memory of its Pod's cgroup is looked at. What counts is what the kernel cannot take back: memory without a
file, shared memory, and the kernel's own; page cache of images gives way. What the guest itself has of its memory is
taken off, so that a row is the largest sum of all else in the Pod that was seen, over all runs.

Guests are emulated, whose translated code is the largest part, unless `--kvm` says that this host can run them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kvedge.controller.vmi.launcher_pod.memory_overhead import TRANSLATION_BUFFER
from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import parse_bytes
from tests.bench.charged_memory import ChargedMemory, Held, largest
from tests.bench.report import Report, Row
from tests.support.box import Box, processes
from tests.support.guest import build_guest
from tests.support.guest_load import fetch_pages, fill_memory, use_disks
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.waiting import wait_until

_IMAGE: Final = "local/overhead-bench:1"
_LOOK_SECONDS: Final = 0.2
_FIRMWARE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of VM: `domain` is laid over the bench's domain, and `disks` are claims beside the system disk."""

    words: str
    vcpus: int = 1
    memory: str = "256Mi"
    disks: int = 0
    hotplugged: int = 0
    domain: JsonObject = field(default_factory=dict)
    # The guest's image has no loader for UEFI: it is looked at while its firmware searches for one.
    boots: bool = True


def _with_efi(**more: object) -> JsonObject:
    return {"firmware": {"bootloader": {"efi": {"secureBoot": False, **more}}}}


_HEADLESS: Final[JsonObject] = {"devices": {"autoattachGraphicsDevice": False}}
SHAPES: Final = (
    Shape("1 vCPU, 256 MiB, no display", domain=_HEADLESS),
    Shape("1 vCPU, 256 MiB"),
    Shape("2 vCPUs, 256 MiB", vcpus=2),
    Shape("4 vCPUs, 256 MiB", vcpus=4),
    Shape("8 vCPUs, 256 MiB", vcpus=8),
    Shape("1 vCPU, 1 GiB", memory="1Gi"),
    Shape("1 vCPU, 3 GiB", memory="3Gi"),
    Shape("4 vCPUs, 1 GiB, 4 disks", vcpus=4, memory="1Gi", disks=4),
    Shape("16 disks", disks=16),
    Shape("16 hotplugged disks", hotplugged=16),
    Shape("UEFI", memory="512Mi", domain=_with_efi(), boots=False),
    Shape("UEFI and a TPM", memory="512Mi", domain=_with_efi() | {"devices": {"tpm": {}}}, boots=False),
)


def main() -> int:
    """Measure; 0 when no VM held more than is reserved for it, 1 when one did."""
    parser = argparse.ArgumentParser("tests/bench/overhead_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of each shape, of which the most counts (3)")
    parser.add_argument("--shape", default="", help="only shapes with these words")
    parser.add_argument("--kvm", action="store_true", help="let this host's processor run the guests")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/overhead_bench: needs root, as kvedge standalone does\n")
        return 5
    report = Report()
    with _box(kvm=options.kvm) as box:
        for shape in SHAPES:
            if options.shape in shape.words:
                _measure(box, shape, options.runs, report)
    report.notes.append(f"the most of {options.runs} runs; reference: what is reserved for such a VM")
    report.show()
    return 1 if any((row.ratio or 0) > 1 for row in report.rows) else 0


@contextmanager
def _box(*, kvm: bool) -> Iterator[Box]:
    directory = Path(tempfile.mkdtemp(prefix="kvbench-", dir="/var/tmp"))
    directory.chmod(0o755)
    box = Box(directory / "data", f"10.93.{os.getpid() % 256}.0/24", log_level="info")
    box.options = ["--emulation", "auto"] if kvm else []
    box.data_dir.mkdir()
    try:
        box.import_image(build_guest().disk, _IMAGE)
        box.start()
        yield box
    finally:
        box.remove()
        shutil.rmtree(directory)


def _measure(box: Box, shape: Shape, runs: int, report: Report) -> None:
    most, reserved = Held(), 0
    for run in range(runs):
        name = f"shape-{run}"
        for number in range(shape.disks + shape.hotplugged):
            with suppress(Exception):
                box.apply(a_claim(f"{name}-{number}"))
        box.apply(_vm(name, shape))
        vmi = box.wait_phase(name, "Running")
        reserved = parse_bytes((vmi.status.memory and vmi.status.memory.memory_overhead) or 0)
        if shape.boots:
            box.wait_answer(name)
        with _watching(_qemu_of(name), parse_bytes(shape.memory)) as watch:
            if shape.boots:
                _use(box, HotplugGuest(box, name), name, shape)
            else:
                time.sleep(_FIRMWARE_SECONDS)
        most = largest(most, watch.most)
        box.remove_vm(name)
    # A guest that runs long enough fills the buffer, of which it has got so much in this short time.
    buffer = TRANSLATION_BUFFER if most.translated else 0
    report.add(Row(shape.words, "MB", (most.others + buffer) / 1e6, reserved / 1e6))
    report.add(Row("  without translated code", "MB", most.others / 1e6, (reserved - buffer) / 1e6))
    report.add(Row("  of it launcher and monitor", "MB", most.beside / 1e6))


def _vm(name: str, shape: Shape) -> JsonObject:
    made = hotplug_vm(name, _IMAGE)
    spec: Any = made["spec"]["template"]["spec"]
    domain = spec["domain"]
    for key, value in shape.domain.items():
        domain[key] = {**domain.get(key, {}), **value}
    domain["memory"] = {"guest": shape.memory}
    domain["cpu"] = {"sockets": 1, "cores": shape.vcpus}
    for number in range(shape.disks):
        domain["devices"]["disks"].append({"name": f"data-{number}", "disk": {"bus": "virtio"}})
        claim = {"claimName": f"{name}-{number}"}
        spec["volumes"].append({"name": f"data-{number}", "persistentVolumeClaim": claim})
    return made


def _use(box: Box, guest: HotplugGuest, name: str, shape: Shape) -> None:
    """Put the guest under load, for as long as that takes."""
    fill_memory(guest, parse_bytes(shape.memory))
    for number in range(shape.disks, shape.disks + shape.hotplugged):
        guest.add(f"{name}-{number}")
    wanted = shape.hotplugged
    wait_until(lambda: guest.run("cat /proc/partitions").count(" sd") >= wanted, "all disks are there", 180)
    use_disks(guest)
    fetch_pages(guest)
    if shape.domain is not _HEADLESS:
        # QEMU draws, and the launcher holds the picture.
        box.cli("vnc", "screenshot", name, "--file", str(box.data_dir / "picture.png"))


def _qemu_of(name: str) -> int:
    """By its guest's name: one without a display has no path with the VMI's UID."""
    (qemu,) = (pid for pid, command in processes() if any(f"guest=default_{name}," in word for word in command))
    return qemu


class _Watch:
    """Looks at a Pod's memory again and again, and keeps the most of each part that it saw, in bytes."""

    def __init__(self, memory: ChargedMemory) -> None:
        self.most = Held()
        self._memory = memory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self.most = largest(self.most, self._memory.look())

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()


@contextmanager
def _watching(qemu: int, guest_bytes: int) -> Iterator[_Watch]:
    watch = _Watch(ChargedMemory(qemu, guest_bytes))
    watch.start()
    try:
        yield watch
    finally:
        watch.end()


if __name__ == "__main__":
    sys.exit(main())
