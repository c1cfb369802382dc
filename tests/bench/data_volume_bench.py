"""Measures a VM with a DataVolume that is imported by HTTP, from its creation until it runs, on one box.

    python -m tests.bench.data_volume_bench [--runs 5] [--gib 1]

Needs root and `qemu-img`. The server is on this machine, at the node bridge's address: loopback is never imported from.
The reference is what cannot be saved: `qemu-img convert` of the local file, and the same VM without the disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.bench.bench_guest import bench_vm
from tests.bench.bench_image import make_image, served
from tests.bench.report import Report, Row, median, spread
from tests.bench.running_watch import RunningWatch
from tests.support.box import Box
from tests.support.waiting import wait_until

_NAME: Final = "bench"
_SECONDS: Final = 300.0


def main() -> int:
    """Measure; there is no goal that could be missed."""
    parser = argparse.ArgumentParser("tests/bench/data_volume_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="of which the median is taken (5)")
    parser.add_argument("--gib", type=int, default=1, help="size of the disk (1)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/data_volume_bench: needs root, as kvedge standalone does\n")
        return 5
    report, directory = Report(), Path(tempfile.mkdtemp(prefix="kvbench-", dir="/var/tmp"))
    network = f"10.93.{os.getpid() % 256}"
    try:
        make_image(directory / "image.qcow2", options.gib << 30)
        box = Box(directory / "data", f"{network}.0/24", log_level="info")
        box.data_dir.mkdir()
        try:
            box.start()
            with served(directory, f"{network}.1") as url:
                _measure(box, f"{url}/image.qcow2", directory, options, report)
        finally:
            box.remove()
    finally:
        shutil.rmtree(directory)
    report.show()
    return 0


def _measure(box: Box, url: str, directory: Path, options: argparse.Namespace, report: Report) -> None:
    watch = RunningWatch(box.client)
    watch.start()
    taken: dict[str, list[float]] = {"with": [], "without": [], "convert": []}
    try:
        # The first one finds cold caches.
        for number in range(options.runs + 1):
            found = {
                "convert": _convert(directory),
                "without": _until_running(box, watch, bench_vm(_NAME)),
                "with": _until_running(box, watch, _with_volume(url, options.gib)),
            }
            for what, seconds in found.items() if number else ():
                taken[what].append(seconds)
    finally:
        watch.stop()
    least = median(taken["convert"]) + median(taken["without"])
    report.add(Row(f"VM with an imported DataVolume of {options.gib} GiB → Running", "s", median(taken["with"]), least))
    report.add(Row("the same VM without it → Running", "s", median(taken["without"])))
    report.add(Row("qemu-img convert of the local file, on disk in the end", "s", median(taken["convert"])))
    report.notes.append(
        f"medians of {options.runs}, taken in turns; with the DataVolume {spread(taken['with'])}; emulated (TCG), "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"
    )


def _with_volume(url: str, gib: int) -> JsonObject:
    made = bench_vm(_NAME)
    spec: Any = made["spec"]
    storage = {"resources": {"requests": {"storage": f"{gib}Gi"}}}
    template = {"metadata": {"name": _NAME}, "spec": {"source": {"http": {"url": url}}, "storage": storage}}
    spec["dataVolumeTemplates"] = [template]
    guest = spec["template"]["spec"]
    guest["domain"]["devices"]["disks"] = [{"name": "data", "disk": {"bus": "virtio"}}]
    guest["volumes"] = [{"name": "data", "dataVolume": {"name": _NAME}}]
    return made


def _until_running(box: Box, watch: RunningWatch, document: JsonObject) -> float:
    """Seconds until the VM runs; it is gone again at the end, with its disk."""
    begun = time.monotonic()
    # Without the start of a client's program.
    box.client.request("POST", VirtualMachine.KIND.path("default"), document)
    taken = watch.wait_running([_NAME], _SECONDS)[_NAME] - begun
    box.client.delete(VirtualMachine, "default", _NAME)
    watch.wait_gone([_NAME], _SECONDS)
    wait_until(lambda: not box.client.list(PersistentVolumeClaim, "default"), "its claim is gone", 60)
    wait_until(lambda: not box.client.list(VirtualMachine, "default"), "the VM is gone", 60)
    return taken


def _convert(directory: Path) -> float:
    image, local = directory / "image.qcow2", directory / "local"
    command = ["qemu-img", "convert", "-t", "writeback", "-f", "qcow2", "-O", "raw", str(image), str(local)]
    begun = time.monotonic()
    subprocess.run(command, check=True)
    with local.open("rb+") as written:
        os.fsync(written.fileno())
    taken = time.monotonic() - begun
    local.unlink()
    return taken


if __name__ == "__main__":
    sys.exit(main())
