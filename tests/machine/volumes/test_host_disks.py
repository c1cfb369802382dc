"""Files of the host as disks of a box's VMs: made once, kept over restarts, and only with the feature gate.

And what a guest sees of a disk whose place is full, because only a file of the host has a place of the test's own.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID, SYSTEM_NAMESPACE
from kvedge.resources.types.core import Event
from kvedge.resources.types.kubevirt import KubeVirt
from tests.machine.volumes.test_vms_on_claims import remove, said, vm_on
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
KEEPER = """#!/bin/sh
if grep -q "kept by the guest" /dev/vdb; then
    echo "found what was kept" >/dev/ttyS0
else
    echo "kept by the guest" | dd of=/dev/vdb bs=4096 conv=sync,fsync 2>/dev/null
    echo "kept it now" >/dev/ttyS0
fi
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.74.0/24", IMAGE) as found:
        wait_until(lambda: found.client.list(KubeVirt), "the KubeVirt object is made")
        yield found


def vm_with(name: str, **disk: Any) -> JsonObject:
    made = vm_on(name, "none", KEEPER)
    spec: Any = made["spec"]["template"]["spec"]
    spec["volumes"][1] = {"name": "data", "hostDisk": disk}
    return made


def console(box: Box, name: str) -> str:
    vmi = box.vmi(name)
    pods = [] if vmi is None else box.pods(vmi)
    logs = [log for pod in pods for log in (box.data_dir / "kubelet/pods" / pod.metadata.uid).rglob("virt-serial0-log")]
    return "".join(log.read_text(errors="replace") for log in logs)


def allow(box: Box) -> None:
    gates = {"developerConfiguration": {"featureGates": ["HostDisk"]}}
    box.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch({"spec": {"configuration": gates}}))
    generation = box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").metadata.generation
    wait_until(
        lambda: box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").status.observed_generation == generation,
        "the gate is seen",
    )


def test_a_file_of_the_host_is_made_once_and_lasts(box: Box, tmp_path: Path) -> None:
    directory = tmp_path / "vms"
    image = directory / "data.img"
    wanted = vm_with("hosted", path=str(image), type="DiskOrCreate", capacity="16Mi")
    (tmp_path / "vm.json").write_text(json.dumps(wanted))
    refused = box.cli("apply", "-f", str(tmp_path / "vm.json"), check=False)
    assert "HostDisk feature gate is not enabled" in refused.stderr

    # A parent that only root and its own user may pass is the kubelet's matter, not the guest's.
    tmp_path.chmod(0o755)
    allow(box)
    box.apply(wanted)
    box.wait_phase("hosted", "Running")
    facts = image.stat()
    assert (facts.st_size, facts.st_uid, facts.st_gid) == (16 << 20, LAUNCHER_UID, LAUNCHER_GID)
    wait_until(lambda: "kept it now" in console(box, "hosted"), "the guest has written", 120)
    remove(box, "hosted")
    assert image.read_bytes().startswith(b"kept by the guest")

    box.apply(vm_with("again", path=str(image), type="Disk"))
    wait_until(lambda: "found what was kept" in console(box, "again"), "another VM finds it", 120)
    remove(box, "again")


def test_an_image_of_somebody_else_is_told_and_keeps_its_owner(box: Box, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    allow(box)
    image = tmp_path / "root.img"
    image.write_bytes(bytes(1 << 20))
    image.chmod(0o600)
    box.apply(vm_with("barred", path=str(image), type="DiskOrCreate", capacity="16Mi"))
    wait_until(lambda: "root.img cannot be written by user" in said(box, "barred"), "the VM says why", 120)
    assert "it belongs to 0:0, with mode 0600" in said(box, "barred")
    facts = image.stat()
    assert (facts.st_size, facts.st_uid) == (1 << 20, 0)
    image.chmod(0o666)
    box.wait_phase("barred", "Running")
    remove(box, "barred")


# Its first disk tells the guest of an error, its second one stops the guest, until there is room.
FILLER = """#!/bin/sh
write() { printf "$2" | dd of=/dev/$1 bs=1M seek=$3 conv=sync,fsync,notrunc 2>/dev/null; }
write vdb first 0 && write vdc first 0 && echo "both have room" >/dev/ttyS0
i=1
while write vdb report $i; do i=$((i+1)); done
echo "told of an error" >/dev/ttyS0
write vdc 'written in the end' $i && echo "went on" >/dev/ttyS0
"""


@contextmanager
def small_place(directory: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = directory / "small"
    place.mkdir()
    with (directory / "small.ext4").open("wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-m0", file.name], check=True)
    subprocess.run(["mount", "-o", "loop", file.name, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def pause_of(box: Box, name: str) -> str:
    """What the VMI says of being paused."""
    vmi = box.vmi(name)
    found = None if vmi is None else condition(vmi.status.conditions, "Paused")
    return "" if found is None else f"{found.reason}: {found.message}"


def io_errors(box: Box, name: str) -> set[str]:
    found = box.client.list(Event, "default")
    return {event.message for event in found if (event.involved_object.name, event.reason) == (name, "IOerror")}


def test_a_guest_whose_disk_s_place_is_full_is_told_or_paused_and_goes_on_when_there_is_room(
    box: Box, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    allow(box)
    with small_place(tmp_path) as place:
        vm = vm_on("crowded", "none", FILLER)
        spec: Any = vm["spec"]["template"]["spec"]
        for number, policy in ((1, "report"), (2, "stop")):
            disk = {"name": policy, "disk": {"bus": "virtio"}, "errorPolicy": policy}
            image = {"path": str(place / f"{policy}.img"), "type": "Disk"}
            # Sparse, so that both fit at first.
            with open(image["path"], "wb") as file:
                file.truncate(16 << 20)
            os.chown(image["path"], LAUNCHER_UID, LAUNCHER_GID)
            spec["domain"]["devices"]["disks"][number:number] = [disk]
            spec["volumes"].insert(number, {"name": policy, "hostDisk": image})
        for entries in (spec["domain"]["devices"]["disks"], spec["volumes"]):
            entries[:] = [entry for entry in entries if entry["name"] != "data"]
        with (place / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 12 << 20)
        try:
            box.apply(vm)
            wait_until(lambda: "told of an error" in console(box, "crowded"), "the guest is told of an error", 180)
            said = wait_until(lambda: pause_of(box, "crowded"), "the guest is paused", 90)
            assert said.startswith("PausedIOError: VMI was paused, low-level IO error detected")
            assert "volume stop: its place is full" in said
            # The VM follows its VMI a moment later.
            wait_until(lambda: box.vm("crowded").status.printable_status == "Paused", "the VM is shown as paused")
            wait_until(lambda: io_errors(box, "crowded"), "an event tells of the volume")
            assert io_errors(box, "crowded") == {"VM Paused due to not enough space on volume: stop"}
            assert "went on" not in console(box, "crowded")
            (place / "filler").unlink()
            wait_until(lambda: "went on" in console(box, "crowded"), "it goes on by itself", 240)
            wait_until(lambda: not pause_of(box, "crowded"), "nothing is told of a pause")
            assert b"written in the end" in (place / "stop.img").read_bytes()
        finally:
            remove(box, "crowded")
