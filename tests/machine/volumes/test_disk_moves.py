"""A disk moves from class to class on one box while its guest writes: nothing is lost that it was told is written,
whoever is killed on the way.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.disks.moved_volumes import VOLUMES_CHANGE
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import condition
from kvedge.resources.names import DISK_MOVE_ENDED
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.machine.volumes.test_vms_on_claims import ACKED, BLOCK, WRITER, a_claim, vm_on
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600), pytest.mark.incremental]

IMAGE = "local/guest:1"
NAME = "mover"
SECONDS = 120
FAST: JsonObject = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "kvedge.io/box",
}


class Writer:
    """A guest that writes numbered blocks, each one to storage before it says so, and the claims of its disk."""

    def __init__(self, box: Box, name: str) -> None:
        self.box = box
        self.name = name
        vmi = box.wait_phase(name, "Running")
        self.uid = vmi.metadata.uid
        log = box.data_dir / "kubelet/pods" / box.pods(vmi)[0].metadata.uid
        (self.serial,) = wait_until(lambda: list(log.rglob("virt-serial0-log")), "the guest's console is logged")

    def acked(self) -> int:
        found = ACKED.findall(self.serial.read_bytes())
        return int(found[-1]) if found else 0

    def goes_on(self) -> None:
        before = self.acked()
        wait_until(lambda: self.acked() > before + 2, "the guest writes on", 60)

    def vmi(self) -> VirtualMachineInstance:
        found = self.box.vmi(self.name)
        assert found is not None
        assert found.metadata.uid == self.uid, "the guest has run on"
        return found

    def claim(self) -> str | None:
        """The one that the VMI names."""
        return next(claim_of(volume) for volume in self.vmi().spec.volumes if volume.name == "data")

    def exchange(self, claim: str) -> None:
        spec = self.box.vm(self.name).spec
        assert spec.template is not None
        volumes = [encode(volume) for volume in spec.template.spec.volumes]
        for volume in volumes:
            if volume["name"] == "data":
                volume["persistentVolumeClaim"] = {"claimName": claim}
        body: JsonObject = {"spec": {"updateVolumesStrategy": "Migration", "template": {"spec": {"volumes": volumes}}}}
        self.box.client.patch(VirtualMachine, "default", self.name, MergePatch(body))

    def words(self) -> list[str]:
        found = condition(self.vmi().status.conditions, VOLUMES_CHANGE)
        said = [] if found is None else [f"{found.status} {found.reason} {found.message}"]
        return said + [
            f"{item.name}: {item.phase} {item.reason} {item.message}" for item in self.vmi().status.volume_status
        ]

    def wait_moved(self, claim: str) -> None:
        def has_moved() -> bool:
            entry = any(item.reason == "DiskMoved" for item in self.vmi().status.volume_status)
            return self.claim() == claim and entry and not self.vmi().status.migrated_volumes

        try:
            wait_until(has_moved, f"the disk is on {claim}", SECONDS)
        except AssertionError:
            print("\n".join(self.words()), self.box.log_tail(60), sep="\n")
            raise

    def image_directory(self, claim: str) -> Path:
        uid = self.box.client.get(PersistentVolumeClaim, "default", claim).metadata.uid
        found = self.box.data_dir / "volumes" / uid
        wait_until(found.is_dir, f"claim {claim} is bound")
        return found

    def image(self, claim: str) -> Path:
        return self.image_directory(claim) / "disk.img"

    def device(self, claim: str) -> Path:
        """The file that is the device of a claim."""
        return next(path for path in self.image_directory(claim).iterdir() if path.is_file())

    def find_lost(self, claim: str, last: int, image: Path | None = None) -> list[int]:
        """The acknowledged blocks that the image lacks."""
        with (image or self.image(claim)).open("rb") as file:
            file.seek(BLOCK)
            content = file.read(last * BLOCK)
        return [n for n in range(1, last + 1) if not content[(n - 1) * BLOCK :].startswith(b"block %010d" % n)]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.68.0/24", IMAGE) as found:
        yield found


@pytest.fixture(scope="module")
def writer(box: Box) -> Writer:
    box.apply(a_claim("slow"))
    box.apply(vm_on(NAME, "slow", WRITER))
    found = Writer(box, NAME)
    wait_until(lambda: found.acked() > 5, "the guest writes", 120)
    return found


def test_a_disk_moves_while_its_guest_writes(writer: Writer) -> None:
    writer.box.apply(FAST)
    (qemu,) = writer.box.qemu_pids(writer.uid)
    said = writer.box.cli("migrate", NAME, "--storage-class", "fast", "--wait", "--timeout", str(SECONDS), check=False)
    assert said.returncode == 0, (said.stdout, said.stderr, writer.words(), writer.box.log_tail(60))
    fast = writer.claim()
    assert fast is not None
    writer.wait_moved(fast)
    writer.goes_on()
    assert writer.box.qemu_pids(writer.uid) == [qemu]
    old = writer.image("slow").read_bytes()
    writer.goes_on()
    assert writer.image("slow").read_bytes() == old, "the old disk is written no more"
    assert [path.name for path in writer.image_directory(fast).iterdir()] == ["disk.img"]
    last = writer.acked()
    assert writer.find_lost(fast, last) == []
    assert writer.image(fast).stat().st_size == len(old)
    claim = writer.box.client.get(PersistentVolumeClaim, "default", fast)
    assert claim.spec.storage_class_name == "fast"


def test_whoever_is_killed_on_the_way_the_disk_arrives(writer: Writer) -> None:
    box = writer.box
    (qemu,) = box.qemu_pids(writer.uid)
    for number, dies in enumerate(("box", "launcher", "both")):
        claim = f"next-{number}"
        box.apply(a_claim(claim))
        writer.exchange(claim)
        wait_until(lambda: writer.vmi().status.migrated_volumes, "the move has begun", pause=0.05)
        if dies != "box":
            os.kill(box.launcher_pids(writer.uid)[-1], signal.SIGKILL)
        if dies != "launcher":
            box.end(signal.SIGKILL)
            before = writer.acked()
            wait_until(lambda before=before: writer.acked() > before, "the guest writes without the box", 60)
            box.start()
        writer.wait_moved(claim)
        writer.goes_on()
        assert box.qemu_pids(writer.uid) == [qemu]
        assert writer.find_lost(claim, writer.acked()) == []


def test_a_user_puts_the_old_claim_back(writer: Writer) -> None:
    box, old = writer.box, writer.claim()
    assert old is not None
    box.apply(a_claim("unwanted"))
    # A claim that no launcher can have is waited for: time to think again.
    writer.image("unwanted").write_bytes(b"somebody's")
    writer.image("unwanted").chmod(0o666)
    writer.exchange("unwanted")
    wait_until(lambda: any("holds data" in word for word in writer.words()), "the failure is told")
    writer.exchange(old)
    wait_until(lambda: not writer.vmi().status.migrated_volumes, "nothing is to be moved")
    wait_until(
        lambda: not any("unwanted" in word or "holds data" in word for word in writer.words()), "it is given back"
    )
    assert writer.claim() == old
    writer.goes_on()


def test_a_guest_whose_qemu_dies_on_the_way_starts_again_with_all_that_was_acknowledged(writer: Writer) -> None:
    box = writer.box
    box.apply(a_claim("last"))
    last, uid = writer.acked(), writer.uid
    writer.exchange("last")
    wait_until(lambda: writer.vmi().status.migrated_volumes, "the move has begun", pause=0.05)
    for pid in box.qemu_pids(uid):
        os.kill(pid, signal.SIGKILL)
    last = max(last, writer.acked())

    def is_again() -> bool:
        vmi = box.vmi(NAME)
        return vmi is not None and vmi.metadata.uid != uid and vmi.status.phase == "Running"

    wait_until(is_again, "the VM starts again by itself", SECONDS)
    again = Writer(box, NAME)
    claim = again.claim()
    assert claim is not None
    assert again.acked() < last
    assert again.find_lost(claim, last) == []


def test_a_disk_moves_to_a_device_and_back(writer: Writer) -> None:
    # Its run is another one by now.
    box, writer = writer.box, Writer(writer.box, NAME)
    writer.goes_on()
    (qemu,) = box.qemu_pids(writer.uid)
    # The last one: a device has the whole of its claim, and the guest's disk is too large for those of before then.
    device = a_claim("device")
    device["spec"]["volumeMode"] = "Block"
    box.apply(device)
    writer.exchange("device")
    writer.wait_moved("device")
    writer.goes_on()
    os.sync()
    assert writer.find_lost("device", writer.acked(), writer.device("device")) == []
    assert not writer.vmi().metadata.annotations.get(DISK_MOVE_ENDED)
    box.apply(a_claim("file", "2Gi"))
    writer.exchange("file")
    writer.wait_moved("file")
    writer.goes_on()
    assert box.qemu_pids(writer.uid) == [qemu]
    assert writer.find_lost("file", writer.acked()) == []
