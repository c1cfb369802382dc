"""Disks of the guest of one box: those that it is given, and those that come and go while it runs as users ask for it.

All are found by serial in the guest. One box and one guest for all of it, as a boot is what takes the time; each test
leaves the guest without hotplugged disks.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Event
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, a_claim, blank_volume, hotplug_vm
from tests.support.image_server import played_server
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400), pytest.mark.incremental]

IMAGE = "local/guest:1"
NAME = "plugged"
WAITING_CLASS: JsonObject = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "waiting"},
    "provisioner": "kvedge.io/box",
    "volumeBindingMode": "WaitForFirstConsumer",
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.63.0/24", IMAGE) as found:
        yield found


# What a server has for DataVolumes; and what a disk of each kind is made of, the file that a guest reads there, its
# content and the disk's label. A label that nobody has set is KubeVirt's.
IMPORTED = b"came by http".ljust(64 << 10, b".")
CONFIG: dict[str, tuple[JsonObject, str, str, str]] = {
    "map": ({"configMap": {"name": "settings", "volumeLabel": "mine"}}, "key", "of a map", "mine"),
    "secret": ({"secret": {"secretName": "hidden"}}, "word", "of a secret", "cfgdata"),
    "account": ({"serviceAccount": {"serviceAccountName": "reader"}}, "namespace", "default", "cfgdata"),
    "downward": (
        {"downwardAPI": {"fields": [{"path": "name", "fieldRef": {"fieldPath": "metadata.labels['who']"}}]}},
        "name",
        "me",
        "cfgdata",
    ),
    "sysprep": ({"sysprep": {"configMap": {"name": "answers"}}}, "autounattend.xml", "<unattend/>", "unattendCD"),
}


def imported(name: str, url: str) -> JsonObject:
    made = blank_volume(name)
    made["spec"]["source"] = {"http": {"url": url}}
    return made


def give_disks(box: Box, vm: JsonObject, url: str) -> None:
    """Disks of all kinds, each with its name for a serial number."""
    box.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"key": "of a map"}})
    box.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}, "stringData": {"word": "of a secret"}}
    )
    box.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}})
    answers = {"autounattend.xml": "<unattend/>"}
    box.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "answers"}, "data": answers})
    box.apply(imported("web", url))
    box.apply(imported("base", url))
    template: Any = vm["spec"]["template"]
    template["metadata"] = {"labels": {"who": "me"}}
    sources = {name: source for name, (source, *_) in CONFIG.items()}
    sources["web"] = {"dataVolume": {"name": "web"}}
    sources["layer"] = {"ephemeral": {"persistentVolumeClaim": {"claimName": "base"}}}
    for name, source in sources.items():
        template["spec"]["volumes"].append({"name": name, **source})
        template["spec"]["domain"]["devices"]["disks"].append({"name": name, "disk": {"bus": "virtio"}, "serial": name})


@pytest.fixture(scope="module")
def guest(box: Box) -> HotplugGuest:
    box.apply(a_claim("lasting"))
    vm = hotplug_vm(NAME, IMAGE, "lasting")
    # Workers reach the host by its address on their network.
    with played_server(IMPORTED, host="10.98.63.1") as server:
        give_disks(box, vm, server.url)
        box.apply(vm)
        box.wait_phase(NAME, "Running")
    found = HotplugGuest(box, NAME)
    found.wait_answer()
    return found


@pytest.mark.parametrize("name", CONFIG)
def test_a_guest_reads_the_files_that_a_disk_was_made_of(guest: HotplugGuest, name: str) -> None:
    _, file, content, label = CONFIG[name]
    device = guest.disk(name)
    assert guest.run(f"mkdir -p /{name} && mount -t iso9660 -o ro {device} /{name} && cat /{name}/{file}") == content
    # Where ISO 9660 has the volume's name.
    assert guest.run(f"umount /{name}; dd if={device} bs=1 skip=32808 count=32 2>/dev/null").rstrip() == label


def test_a_guest_reads_what_was_imported_and_writes_over_it_in_a_layer_that_does_not_last(guest: HotplugGuest) -> None:
    words = IMPORTED[:12].decode()
    assert (guest.read("web", 12), guest.read("layer", 12)) == (words, words)
    guest.write("layer", "and now that")
    assert guest.read("layer", 12) == "and now that"
    claim = guest.box.client.request("GET", "/api/v1/namespaces/default/persistentvolumeclaims/base")
    (image,) = guest.box.data_dir.glob(f"volumes/{claim['metadata']['uid']}/disk.img")
    assert image.read_bytes().startswith(IMPORTED)


def test_files_devices_and_data_volumes_come_at_once_beside_one_that_cannot(guest: HotplugGuest) -> None:
    box = guest.box
    box.apply(a_claim("file"))
    box.apply(a_claim("device", volumeMode="Block"))
    box.apply(blank_volume("blank"))
    guest.add("file", "--serial", "File-1")
    # Beside those that were asked for by a call, the same by an edit of the VM, and one whose claim is not there.
    guest.write_spec(
        device={"persistentVolumeClaim": {"claimName": "device"}},
        blank={"dataVolume": {"name": "blank"}},
        missing={"persistentVolumeClaim": {"claimName": "nowhere"}},
    )
    wanted = {"file": "Ready", "device": "Ready", "blank": "Ready", "missing": "Pending"}
    try:
        wait_until(lambda: guest.phases() == wanted, "all but one are Ready", 60)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{guest.told()}") from error
    guest.wait_message("missing", "PVC nowhere not found; create it, and it is attached by itself")
    assert dv_phase(box, "blank") == "Succeeded"
    for serial in ("File-1", "device", "blank"):
        assert guest.disk(serial).startswith("/dev/sd")
        guest.write(serial, f"hello {serial}")
        assert guest.read(serial, 20).rstrip("\0") == f"hello {serial}"
    assert guest.bytes_of("File-1") == guest.bytes_of("device") == 64 << 20

    # The missing one comes as soon as its claim does, and goes as it came.
    box.apply(a_claim("nowhere"))
    guest.wait_ready("file", "device", "blank", "missing")
    targets = {entry.name: entry.target for entry in guest.vmi().status.volume_status if entry.hotplug_volume}
    assert len(set(targets.values())) == 4
    seed = guest.entry("seed")
    assert seed is not None
    assert seed.size == int(guest.run(f"cat /sys/block/{seed.target}/size")) * 512
    guest.write_spec(missing=None)
    guest.wait_ready("file", "device", "blank")
    assert guest.disk("missing") == ""


def test_a_claim_that_waits_for_its_first_consumer_gets_it(guest: HotplugGuest) -> None:
    box = guest.box
    box.apply(WAITING_CLASS)
    in_class = {"storageClassName": WAITING_CLASS["metadata"]["name"]}
    box.apply(a_claim("first", **in_class))
    box.apply(blank_volume("first-blank", **in_class))
    wait_until(lambda: dv_phase(box, "first-blank") == "WaitForFirstConsumer", "the DataVolume waits for a consumer")
    guest.add("first")
    guest.add("first-blank")
    guest.wait_ready("file", "device", "blank", "first", "first-blank")
    assert dv_phase(box, "first-blank") == "Succeeded"
    guest.write("first-blank", "hello first")
    guest.remove("first")
    guest.remove("first-blank")
    guest.wait_ready("file", "device", "blank")


def dv_phase(box: Box, name: str) -> str:
    return box.client.get(DataVolume, "default", name).status.phase


def test_a_guest_that_reboots_has_its_disks_again(guest: HotplugGuest) -> None:
    boot = guest.run("cat /proc/sys/kernel/random/boot_id")
    with contextlib.suppress(subprocess.CalledProcessError):
        guest.run("reboot -f", 5)
    wait_until(lambda: another_boot(guest, boot), "the guest has booted again", 90)
    assert guest.read("File-1", 12) == "hello File-1"
    assert guest.read("device", 12) == "hello device"


def another_boot(guest: HotplugGuest, boot: str) -> bool:
    with contextlib.suppress(subprocess.CalledProcessError):
        return guest.run("cat /proc/sys/kernel/random/boot_id", 3) not in ("", boot)
    return False


def test_disks_grow_with_their_claims_while_the_guest_runs(guest: HotplugGuest) -> None:
    for claim in ("file", "device", "lasting"):
        guest.box.cli("volume", "resize", claim, "96Mi")
    wait_for_sizes(guest, {"File-1": 90, "device": 96, "lasting": 90})


def wait_for_sizes(guest: HotplugGuest, mebibytes: dict[str, int]) -> None:
    """A disk that is a file leaves its file system 6 %, as KubeVirt's do."""
    seen: dict[str, int] = {}

    def as_wanted() -> bool:
        seen.update({serial: guest.bytes_of(serial) >> 20 for serial in mebibytes})
        return seen == mebibytes

    try:
        wait_until(as_wanted, "the guest sees what its disks have grown to", 30)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}\n{guest.told()}") from error


def test_a_restart_of_the_vm_brings_them_back_grown_meanwhile_and_they_still_go(guest: HotplugGuest) -> None:
    before = guest.vmi()
    guest.box.cli("restart", NAME)
    # While the old run ends and the new one begins.
    for claim in ("file", "device", "lasting"):
        guest.box.cli("volume", "resize", claim, "128Mi")
    wait_until(lambda: is_another_run(guest.box, before), "the VM runs again", 90)
    guest.wait_answer()
    guest.wait_ready("file", "device", "blank")
    assert guest.read("File-1", 12) == "hello File-1"
    assert guest.read("device", 12) == "hello device"
    assert guest.read("blank", 11) == "hello blank"
    wait_for_sizes(guest, {"File-1": 120, "device": 128, "lasting": 120})
    guest.remove("file")
    guest.write_spec(device=None, blank=None)
    guest.wait_ready()
    assert guest.run("ls -d /sys/block/sd* 2>/dev/null; true") == ""
    wait_until(lambda: not guest.attachments(), "no attachment Pod is left")
    reasons = {event.reason for event in guest.box.client.list(Event, "default") if event.involved_object.name == NAME}
    assert {"SuccessfulCreate", "SuccessfulDelete"} <= reasons


def is_another_run(box: Box, before: VirtualMachineInstance) -> bool:
    vmi = box.vmi(NAME)
    return vmi is not None and vmi.metadata.uid != before.metadata.uid and vmi.status.phase == "Running"


def test_a_disk_that_was_given_up_is_given_to_the_guest_again_with_what_was_on_it(guest: HotplugGuest) -> None:
    guest.add("file", "--serial", "Again", "--bus", "virtio")
    guest.wait_ready("file")
    assert guest.disk("Again").startswith("/dev/vd")
    assert guest.read("Again", 12) == "hello File-1"
    guest.remove("file")
    guest.wait_ready()


def test_a_disk_that_the_guest_holds_is_told_and_goes_once_it_lets_go(guest: HotplugGuest) -> None:
    box = guest.box
    guest.add("file", "--bus", "virtio")
    guest.wait_ready("file")
    # A disk of its own slot goes only when the guest's kernel lets it go, and this one does nothing at all.
    box.cli("pause", "vm", NAME)
    guest.remove("file")
    # Meanwhile it holds up no other one.
    guest.add("device", "--serial", "other")
    wait_until(lambda: guest.phases().get("device") == "Ready", "another disk is Ready")
    guest.remove("device")
    wait_until(lambda: "device" not in guest.phases(), "another disk is gone")
    guest.wait_message("file", "The guest has not released disk file since", 60)
    guest.wait_message("file", "unmount it in the guest and close what uses it, or restart the VM")
    box.cli("unpause", "vm", NAME)
    guest.wait_ready(seconds=90)
    assert guest.disk("file") == ""
