"""A snapshot with memory on one box: the guest counts on from it, once, and its file system is whole."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import KubeError
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.saved_memory import RESUME_MEMORY
from tests.support.box import Box
from tests.support.edits import edit
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import USER_DATA, HotplugGuest, a_claim
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900), pytest.mark.incremental]

IMAGE = "local/guest:1"
NAME = "counter"
# /run is memory. The same counts are on the disk, behind those in memory and never ahead.
COUNT = (
    "mkdir -p /data; disk=$(sh /www/cgi-bin/disks | sed -n 's/.*disk=\\([^ ]*\\).*serial=data.*/\\1/p');"
    " mke2fs -q $disk && mount $disk /data;"
    " setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >/run/count; echo $i >/data/count; usleep 50000; done'"
    " </dev/null >/dev/null 2>&1 &"
)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HotplugGuest]:
    """The VM, which counts."""
    directory = tmp_path_factory.mktemp("box")
    (directory / "user-data").write_text(USER_DATA)
    with guest_box(directory, "10.98.86.0/24", IMAGE, agent=True) as box:
        box.apply(a_claim("data"))
        launched = ("--disk", "256Mi", "--memory", "192Mi", "--user-data", str(directory / "user-data"))
        box.cli("launch", IMAGE, NAME, *launched, "--wait", "--timeout", "200")
        box.cli("stop", NAME, "--wait", "--timeout", "100")
        edit(box.client, VirtualMachine.KIND.path("default", NAME), with_data)
        box.cli("start", NAME, "--wait", "--timeout", "200")
        made = HotplugGuest(box, NAME)
        box.wait_answer(NAME)
        made.run(COUNT, 60)
        wait_until(lambda: count(made) > 3, "the guest counts", seconds=60)
        yield made


def with_data(vm: Any) -> None:
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}, "serial": "data"})
    spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})


def without_data(vm: Any) -> None:
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"] = [each for each in spec["domain"]["devices"]["disks"] if each["name"] != "data"]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] != "data"]


def box_of(guest: HotplugGuest) -> Box:
    assert isinstance(guest.box, Box)
    return guest.box


def count(guest: HotplugGuest) -> int:
    try:
        return int(guest.run("cat /run/count 2>/dev/null") or "0")
    except (subprocess.CalledProcessError, AssertionError, IndexError):
        return 0


def counts_on(guest: HotplugGuest) -> int:
    before = wait_until(lambda: count(guest), "the guest answers", seconds=60)
    return wait_until(lambda: (now := count(guest)) > before and now, "the guest counts on", seconds=60)


def place_of(guest: HotplugGuest, claim: str) -> Path:
    found = guest.box.client.get(PersistentVolumeClaim, "default", claim)
    volume = guest.box.client.request("GET", PersistentVolume.KIND.path("", found.spec.volume_name))
    return Path((volume["spec"].get("local") or volume["spec"].get("hostPath"))["path"]) / "disk.img"


def data_claim(guest: HotplugGuest) -> str:
    template = guest.box.vm(NAME).spec.template
    assert template is not None
    volume = next(each for each in template.spec.volumes if each.name == "data")
    assert volume.persistent_volume_claim is not None
    return volume.persistent_volume_claim.claim_name


def test_a_restored_guest_counts_on_from_its_snapshot(guest: HotplugGuest) -> None:
    box = box_of(guest)
    before = counts_on(guest)
    box.cli("snapshot", "create", NAME, "one", "--memory", "--wait", "--timeout", "200")
    taken = box.client.get(VirtualMachineSnapshot, "default", "one")
    assert taken.status.indications == ["Online", "Memory"]
    assert "downtime" in (taken.status.source_indications[-1].message or "")
    row = next(line for line in box.cli("snapshot", "list", NAME).stdout.splitlines() if line.startswith("one"))
    assert "yes" in row.split()[5:]
    moment = counts_on(guest)
    guest.run("echo later >/run/later; echo later >/data/later; sync")
    wait_until(lambda: count(guest) > moment + 100, "the guest counts further", seconds=60)
    further = count(guest)
    box.cli("snapshot", "restore", NAME, "one", "--stop", "--wait", "--timeout", "200")
    assert RESUME_MEMORY in box.vm(NAME).metadata.annotations
    with pytest.raises(KubeError, match="goes on from saved memory"):
        edit(box.client, VirtualMachine.KIND.path("default", NAME), without_data)
    box.cli("start", NAME, "--wait", "--timeout", "200", check=False)
    resumed = wait_until(lambda: count(guest), "the guest goes on", seconds=60)
    assert before <= resumed < further
    assert guest.run("cat /run/later /data/later 2>/dev/null || echo none") == "none\n"
    counts_on(guest)
    wait_until(lambda: RESUME_MEMORY not in box.vm(NAME).metadata.annotations, "the word is used", seconds=30)
    wait_until(
        lambda: (
            not [
                each
                for each in box.client.list(DataVolume, "default")
                if each.metadata.name.startswith("restore-") and each.metadata.name.endswith("-memory")
            ]
        ),
        "the memory goes",
        seconds=60,
    )


def test_the_run_after_it_boots_on_a_file_system_that_is_whole(guest: HotplugGuest) -> None:
    box = box_of(guest)
    guest.run("pkill -f run/count; sleep 1; sync; umount /data && echo done >/run/unmounted; true", 30)
    wait_until(
        lambda: "done" in guest.run("umount /data 2>/dev/null && echo done >/run/unmounted; cat /run/unmounted"),
        "it is unmounted",
        seconds=30,
    )
    box.cli("stop", NAME, "--wait", "--timeout", "100")
    found = subprocess.run(["e2fsck", "-fn", place_of(guest, data_claim(guest))], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    box.cli("start", NAME, "--wait", "--timeout", "200")
    box.wait_answer(NAME)
    assert guest.run("cat /run/count 2>/dev/null || echo none") == "none\n"
