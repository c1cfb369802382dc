"""Measures from `addvolume` until a volume is Ready on one box, against libvirt attaching such a disk to the same VMI.

    python -m tests.bench.hotplug_bench [--runs 10]

Needs root. The claims are there before anything is measured: what is measured is the attachment Pod, the hand-over, the
attach, and the status that tells of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.bench.bench_guest import bench_vm
from tests.bench.libvirt_loop import LibvirtLoop
from tests.bench.report import Goal, Report, Row, median, missed
from tests.support.box import Box
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.hotplug_guest import HotplugGuest, a_claim
from tests.support.waiting import wait_until

_NAME: Final = "bench"
_ADD: Final = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/{}/addvolume"
_MODES: Final = {"file": "Filesystem", "device": "Block"}
_IMAGE_BYTES: Final = 64 << 20


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/hotplug_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="of which the median is taken (10)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/hotplug_bench: needs root, as kvedge standalone does\n")
        return 5
    report, load = Report(), os.getloadavg()[0]
    with _box() as box:
        box.apply(bench_vm(_NAME))
        vmi = box.wait_phase(_NAME, "Running")
        bare = bare_attach(box, _NAME, options.runs)
        for kind, mode in _MODES.items():
            guest = HotplugGuest(box, _NAME)
            claims = [a_claim(f"{kind}-{number}", volumeMode=mode) for number in range(options.runs)]
            taken = [seconds_until_ready(guest, claim) for claim in claims]
            report.add(Row(f"addvolume until Ready, a {kind}", "s", median(taken), bare, Goal(most=1.0)))
        assert box.vmi(_NAME) is not None
        assert len(box.qemu_pids(vmi.metadata.uid)) == 1
    report.notes.append(f"medians of {options.runs}; reference: libvirt's attach of a file; load {load:.1f} before")
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def bare_attach(box: Box | LocalCluster, name: str, runs: int) -> float:
    """Seconds that a bare libvirt takes to attach a file to such a guest."""
    vmi = _without_network(box, name)
    with tempfile.TemporaryDirectory(prefix="kvbench-") as folder, LibvirtLoop([vmi]) as bare:
        image = Path(folder) / "disk.img"
        image.touch()
        os.truncate(image, _IMAGE_BYTES)
        return median(bare.attach(image, runs))


def _without_network(box: Box | LocalCluster, name: str) -> Any:
    """The VMI as a bare libvirt can start it: nobody has made a tap for it."""
    vmi = box.client.request("GET", VirtualMachineInstance.KIND.path("default", name))
    vmi["spec"]["networks"] = []
    vmi["spec"]["domain"]["devices"]["interfaces"] = []
    vmi["spec"]["domain"]["devices"]["autoattachPodInterface"] = False
    return vmi


def seconds_until_ready(guest: HotplugGuest, claim: JsonObject) -> float:
    """Seconds from the call until a volume is Ready; it is gone again at the end."""
    box, name = guest.box, claim["metadata"]["name"]
    box.apply(claim)
    wait_until(
        lambda: box.client.get(PersistentVolumeClaim, "default", name).status.phase == "Bound", f"{name} is bound"
    )
    disk = {"name": name, "disk": {"bus": "scsi"}}
    body = {"name": name, "disk": disk, "volumeSource": {"persistentVolumeClaim": {"claimName": name}}}
    begun = time.monotonic()
    # Without the start of a client's program.
    box.client.request("PUT", _ADD.format(guest.name), body)
    _wait(guest, {name: "Ready"})
    taken = time.monotonic() - begun
    guest.remove(name)
    _wait(guest, {})
    wait_until(lambda: not guest.attachments(), "its attachment Pod is gone")
    return taken


def _wait(guest: HotplugGuest, phases: dict[str, str]) -> None:
    wait_until(lambda: guest.phases() == phases, f"the volumes are {phases}", 60, 0.01)


@contextmanager
def _box() -> Iterator[Box]:
    directory = Path(tempfile.mkdtemp(prefix="kvbench-"))
    box = Box(directory / "data", f"10.93.{os.getpid() % 256}.0/24", log_level="info")
    box.data_dir.mkdir()
    try:
        box.start()
        yield box
    finally:
        box.remove()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
