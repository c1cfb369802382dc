"""VMs whose disks are claims of one box: they wait for them, keep them, and lose nothing when the box is killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.import_job import JOB_VARIABLE
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import blank_volume
from tests.support.image_server import played_server
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
BLOCK = 4096
# The host on the box's network, where workers reach it, and what is imported from there.
HOST = "10.98.66.1"
IMPORTED = os.urandom(4 << 20)
# How often the box, and the worker of another claim, is killed while a guest writes.
ROUNDS = int(os.environ.get("KVEDGE_TEST_BOX_KILL_ROUNDS", "2"))
WRITER = """#!/bin/sh
i=1
while :; do
    printf 'block %010d' $i | dd of=/dev/vdb bs=4096 seek=$i conv=sync,fsync 2>/dev/null && echo "acked $i" >/dev/ttyS0
    i=$((i+1))
done
"""
# Asks the TPM for a place of its own in it, by TPM2_NV_ReadPublic, and makes that by TPM2_NV_DefineSpace.
SEALER = r"""#!/bin/sh
exec 3<>/dev/tpm0
asked() { dd bs=4096 count=1 <&3 2>/dev/null | od -An -tx1 -j6 -N4 | tr -d ' \n'; }
printf '\200\001\000\000\000\016\000\000\001\151\001\120\000\040' >&3
before=$(asked)
define='\200\002\000\000\000\055\000\000\001\052\100\000\000\001\000\000\000\011\100\000'
define="$define"'\000\011\000\000\000\000\000\000\000\000\016\001\120\000\040\000\013\000\006\000'
define="$define"'\006\000\000\000\010'
printf "$define" >&3
echo "before=$before made=$(asked)" >/www/tpm
"""
ACKED = re.compile(rb"acked (\d+)\r?\n")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.66.0/24", IMAGE) as found:
        yield found


def a_claim(name: str, size: str = "1Gi") -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }


def vm_on(name: str, claim: str, user_data: str = "") -> JsonObject:
    """The small guest, with a claim as its second disk."""
    made = small_vm(name, IMAGE)
    spec: Any = made["spec"]["template"]["spec"]
    disks, volumes = spec["domain"]["devices"]["disks"], spec["volumes"]
    disks.insert(1, {"name": "data", "disk": {"bus": "virtio"}})
    volumes.insert(1, {"name": "data", "persistentVolumeClaim": {"claimName": claim}})
    if user_data:
        volumes[:] = [volume for volume in volumes if "cloudInitNoCloud" not in volume]
        disks[:] = [disk for disk in disks if disk["name"] in {volume["name"] for volume in volumes}]
        volumes.append({"name": "seed", "cloudInitNoCloud": {"userData": user_data}})
        disks.append({"name": "seed", "disk": {"bus": "virtio"}})
    return made


def remove(box: Box, name: str) -> None:
    box.client.delete(VirtualMachine, "default", name)
    wait_until(lambda: is_gone(box, name), f"VM {name} is gone", 90)


def is_gone(box: Box, name: str) -> bool:
    try:
        box.vm(name)
    except NotFound:
        return True
    return False


def said(box: Box, name: str) -> str:
    found = condition(box.vm(name).status.conditions, "Synchronized")
    return "" if found is None else found.message


def imported(name: str, url: str) -> JsonObject:
    made = blank_volume(name)
    made["spec"]["source"] = {"http": {"url": url}}
    return made


def workers(name: str) -> list[int]:
    """The processes that fill a claim."""
    mark = f'"name":"{name}"'.encode()
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            text = place.read_bytes()
            if JOB_VARIABLE.encode() in text and mark in text.replace(b" ", b""):
                found.append(int(place.parent.name))
    return found


def is_filled(box: Box, name: str) -> bool:
    said = box.client.get(DataVolume, "default", name).status
    assert said.phase != "Failed", said
    return said.phase == "Succeeded"


def images(box: Box) -> list[Path]:
    return sorted((box.data_dir / "volumes").rglob("disk.img"))


def test_a_vm_waits_for_its_claim_and_the_next_vm_for_the_first(box: Box) -> None:
    box.apply(vm_on("first", "shared"))
    wait_until(lambda: box.vm("first").status.printable_status == "ErrorPvcNotFound", "the missing claim is told")
    assert "PVC default/shared does not exist" in said(box, "first")
    box.apply(a_claim("shared"))
    vmi = box.wait_phase("first", "Running")
    info = next(entry for entry in vmi.status.volume_status if entry.name == "data").persistent_volume_claim_info
    assert info is not None
    assert (info.claim_name, info.volume_mode) == ("shared", "Filesystem")

    box.apply(vm_on("second", "shared"))
    wait_until(lambda: "is in use by VM first" in said(box, "second"), "the second VM says who has the claim")
    remove(box, "first")
    box.wait_phase("second", "Running")
    assert said(box, "second") == ""
    remove(box, "second")


def test_what_a_guest_was_told_is_written_is_there_when_the_box_was_killed(box: Box) -> None:
    known = set(images(box))
    box.apply(a_claim("lasting"))
    box.apply(vm_on("writer", "lasting", WRITER))
    vmi = box.wait_phase("writer", "Running")
    log = box.data_dir / "kubelet/pods" / box.pods(vmi)[0].metadata.uid
    (serial,) = wait_until(lambda: list(log.rglob("virt-serial0-log")), "the guest's console is logged")

    def acked() -> int:
        found = ACKED.findall(serial.read_bytes())
        return int(found[-1]) if found else 0

    wait_until(lambda: acked() > 5, "the guest writes", 120)
    (image,) = set(images(box)) - known
    for number in range(ROUNDS):
        before = acked()
        with played_server(IMPORTED, host=HOST) as server:
            # It stops half-way until its worker is killed.
            released = threading.Event()
            server.breaks, server.breaks_after, server.after_break = (
                1,
                len(IMPORTED) // 2,
                lambda _, e=released: e.wait(60),
            )
            box.apply(imported(f"killed-{number}", server.url))
            for pid in wait_until(lambda n=number: workers(f"killed-{n}"), "a worker fills the other claim", 60):
                os.kill(pid, signal.SIGKILL)
            released.set()
            wait_until(lambda n=number: is_filled(box, f"killed-{n}"), "another worker has filled it", 120)
        box.end(signal.SIGKILL)
        wait_until(lambda before=before: acked() > before, "the guest writes on without the box", 60)
        box.start()
        assert box.wait_phase("writer", "Running").metadata.uid == vmi.metadata.uid
    for pid in box.qemu_pids(vmi.metadata.uid):
        os.kill(pid, signal.SIGKILL)
    last = acked()
    with image.open("rb") as file:
        file.seek(BLOCK)
        content = file.read(last * BLOCK)
    lost = [n for n in range(1, last + 1) if not content[(n - 1) * BLOCK :].startswith(b"block %010d" % n)]
    assert (lost, last > 5) == ([], True)
    for number in range(ROUNDS):
        uid = box.client.get(PersistentVolumeClaim, "default", f"killed-{number}").metadata.uid
        assert (box.data_dir / f"volumes/{uid}/disk.img").read_bytes().startswith(IMPORTED)
    remove(box, "writer")


def test_what_a_guest_has_in_its_tpm_is_there_after_a_restart_and_goes_with_the_vm(box: Box) -> None:
    box.apply(sealed_vm("sealed"))
    first = box.wait_phase("sealed", "Running")
    # A handle that the TPM does not know, and one that it has made.
    assert tpm_of(box, "sealed") == "before=0000018b made=00000000"
    box.cli("restart", "sealed")
    wait_until(lambda: (vmi := box.vmi("sealed")) and vmi.metadata.uid != first.metadata.uid, "another run")
    box.wait_phase("sealed", "Running")
    # It knows the place, and does not make it twice.
    assert tpm_of(box, "sealed") == "before=00000000 made=0000014c"
    claim = box.client.get(PersistentVolumeClaim, "default", "persistent-state-for-sealed")
    assert claim.metadata.labels == {"persistent-state-for": "sealed"}
    remove(box, "sealed")
    wait_until(lambda: not has_claim(box, claim.metadata.name), "its claim is gone", 60)


def sealed_vm(name: str) -> JsonObject:
    """The small guest with a TPM that lasts."""
    made = small_vm(name, IMAGE)
    spec: Any = made["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 5
    spec["domain"]["devices"]["tpm"] = {"persistent": True}
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": SEALER}})
    return made


def tpm_of(box: Box, name: str) -> str:
    """What the guest has heard from its TPM."""
    box.wait_answer(name)
    vmi = box.vmi(name)
    assert vmi is not None
    url = f"http://{vmi.status.interfaces[0].ip_address}/tpm"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def told() -> str:
        with contextlib.suppress(OSError), opener.open(url, timeout=2) as answer:
            return str(answer.read(256).decode().strip())
        return ""

    return wait_until(told, "the guest tells of its TPM", 60)


def has_claim(box: Box, name: str) -> bool:
    try:
        box.client.get(PersistentVolumeClaim, "default", name)
    except NotFound:
        return False
    return True
