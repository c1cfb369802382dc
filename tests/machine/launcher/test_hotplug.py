"""Disks that come and go in a running domain, with real libvirt and QEMU; the guest need not boot."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.machine.launcher.hotplugged import HotplugVmi
from tests.support.launcher_pod import LauncherPod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine


@pytest.fixture
def vmi(pod: LauncherPod) -> HotplugVmi:
    return HotplugVmi(pod)


def troubles(pod: LauncherPod) -> list[Any]:
    return list(pod.call("GetDomain").disk_troubles)


def test_a_disk_comes_and_goes_while_the_guest_runs(vmi: HotplugVmi) -> None:
    vmi.sync()
    (qemu,) = vmi.pod.qemu_pids()
    vmi.image("Data")
    vmi.add("Data")
    vmi.sync()
    vmi.wait_for({"Data": "sda"})
    opened = os.listdir(f"/proc/{qemu}/fd")
    links = [os.readlink(f"/proc/{qemu}/fd/{name}") for name in opened]
    assert any(link.endswith("hotplug-disks/Data.img") for link in links)

    vmi.remove("Data")
    vmi.sync()
    vmi.wait_for({})
    assert vmi.pod.qemu_pids() == [qemu]


def test_what_is_not_handed_over_is_not_attached(vmi: HotplugVmi) -> None:
    vmi.sync()
    vmi.add("early", phase="AttachedToNode")
    vmi.image("early")
    vmi.add("absent")
    vmi.add("placeholder")
    vmi.image("placeholder", size=0)
    vmi.image("good")
    vmi.add("good")
    vmi.sync()
    vmi.wait_for({"good": "sdd"})
    assert troubles(vmi.pod) == []


def test_names_stay_while_others_come_and_go_and_a_freed_one_is_used_again(vmi: HotplugVmi) -> None:
    vmi.sync()
    for name in ("a", "b", "c"):
        vmi.image(name)
        vmi.add(name)
    vmi.sync()
    vmi.wait_for({"a": "sda", "b": "sdb", "c": "sdc"})
    vmi.remove("b")
    vmi.image("d")
    vmi.sync()
    vmi.wait_for({"a": "sda", "c": "sdc"})
    vmi.add("d")
    vmi.sync()
    vmi.wait_for({"a": "sda", "c": "sdc", "d": "sdb"})


def test_a_disk_that_libvirt_refuses_is_told_with_its_words_and_holds_up_no_other(vmi: HotplugVmi) -> None:
    vmi.sync()
    image = vmi.image("locked")
    image.chmod(0o600)
    os.chown(image, 0, 0)
    vmi.add("locked")
    vmi.image("good")
    vmi.add("good")
    vmi.sync()
    vmi.wait_for({"good": "sdb"})
    (trouble,) = wait_until(lambda: troubles(vmi.pod), "a trouble")
    assert (trouble.name, trouble.action) == ("locked", m.DISK_ACTION_ATTACH)
    assert "ermission denied" in trouble.message

    # It is tried again by itself, and the trouble goes.
    os.chown(image, 107, 107)
    vmi.wait_for({"locked": "sda", "good": "sdb"})
    assert troubles(vmi.pod) == []


def test_a_disk_that_never_comes_is_given_up_by_its_removal(vmi: HotplugVmi) -> None:
    vmi.sync()
    image = vmi.image("locked")
    os.chown(image, 0, 0)
    image.chmod(0o600)
    vmi.add("locked")
    vmi.sync()
    wait_until(lambda: troubles(vmi.pod), "a trouble")
    vmi.remove("locked")
    vmi.sync()
    wait_until(lambda: not troubles(vmi.pod), "no trouble")


def test_a_launcher_that_was_killed_goes_on_where_it_was(vmi: HotplugVmi) -> None:
    vmi.sync()
    vmi.image("first")
    vmi.add("first")
    vmi.image("second")
    vmi.sync()
    vmi.wait_for({"first": "sda"})
    (qemu,) = vmi.pod.qemu_pids()
    killed = vmi.pod.launcher_pid()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: _another_launcher(vmi.pod, killed), "another launcher")
    vmi.add("second")
    vmi.sync()
    vmi.wait_for({"first": "sda", "second": "sdb"})
    vmi.remove("first")
    vmi.sync()
    vmi.wait_for({"second": "sdb"})
    assert vmi.pod.qemu_pids() == [qemu]


def _another_launcher(pod: LauncherPod, killed: int) -> bool:
    try:
        return pod.launcher_pid() != killed
    except OSError:
        return False


def test_a_disk_is_there_from_the_start_when_its_volume_is_and_can_still_be_removed(vmi: HotplugVmi) -> None:
    vmi.image("early")
    vmi.add("early")
    vmi.add("late", phase="Pending")
    started = vmi.sync()
    assert [(disk.name, disk.target) for disk in started.disks] == [("early", "sda")]
    vmi.image("late")
    vmi.phases["late"] = "MountedToPod"
    vmi.sync()
    vmi.wait_for({"early": "sda", "late": "sdb"})
    vmi.remove("early")
    vmi.sync()
    vmi.wait_for({"late": "sdb"})


def test_a_virtio_disk_that_a_guest_without_a_system_does_not_release_is_asked_for_and_told(vmi: HotplugVmi) -> None:
    vmi.sync()
    vmi.image("slow")
    vmi.add("slow", bus="virtio")
    vmi.image("other")
    vmi.sync()
    vmi.wait_for({"slow": "vda"})
    vmi.remove("slow")
    vmi.add("other")
    vmi.sync()
    # The other one comes at once, though the first one has not gone.
    wait_until(lambda: "other" in vmi.targets(), "the other disk", 20)
    if "slow" not in vmi.targets():
        pytest.skip("this QEMU's firmware releases disks by itself")
    (trouble,) = wait_until(lambda: troubles(vmi.pod), "the trouble", 60)
    assert (trouble.name, trouble.action) == ("slow", m.DISK_ACTION_DETACH)
    # A reset releases what was asked for.
    vmi.pod.call("Reset")
    vmi.wait_for({"other": "sda"})
    wait_until(lambda: not troubles(vmi.pod), "no trouble")


def test_a_cd_rom_drive_is_filled_swapped_and_emptied(vmi: HotplugVmi) -> None:
    vmi.disks["cd"] = {"name": "cd", "cdrom": {"bus": "sata"}}
    started = vmi.sync()
    assert [(disk.name, disk.target, disk.empty) for disk in started.disks] == [("cd", "sda", True)]
    vmi.image("cd", content=b"first")
    vmi.phases["cd"] = "MountedToPod"
    vmi.sync()
    wait_until(lambda: not vmi.pod.call("GetDomain").disks[0].empty, "a medium")
    del vmi.phases["cd"]
    vmi.sync()
    wait_until(lambda: vmi.pod.call("GetDomain").disks[0].empty, "an empty drive")
    vmi.image("cd", content=b"second", size=32 << 20)
    vmi.phases["cd"] = "MountedToPod"
    vmi.sync()
    wait_until(lambda: not vmi.pod.call("GetDomain").disks[0].empty, "the second medium")
    assert troubles(vmi.pod) == []


def test_a_serial_keeps_its_case(vmi: HotplugVmi) -> None:
    vmi.sync()
    vmi.image("data")
    vmi.add("data", disk={"bus": "scsi"}, serial="AbC-x")
    vmi.sync()
    vmi.wait_for({"data": "sda"})
    (file,) = (vmi.pod.directory / "private" / "libvirt").rglob("run/qemu/*.xml")
    assert re.search("<serial>AbC-x</serial>", file.read_text())


def test_a_hundred_disks_come_in_time_and_memory_that_grow_with_their_number(vmi: HotplugVmi) -> None:
    vmi.sync()
    # What the launcher itself uses: others on the machine take neither. Of its memory what is no file's, as the kernel
    # takes pages of files away and brings them back as it likes.
    took, memory = [vmi.pod.launcher_seconds()], [vmi.pod.launcher_memory("RssAnon")]
    for count in (50, 100):
        for number in range(len(vmi.disks), count):
            vmi.image(f"d{number:03}", size=1 << 20)
            vmi.add(f"d{number:03}")
        vmi.sync()
        wait_until(lambda: len(vmi.targets()) == len(vmi.disks), f"{count} disks", 120, pause=0.05)
        took.append(vmi.pod.launcher_seconds())
        memory.append(vmi.pod.launcher_memory("RssAnon"))
    assert troubles(vmi.pod) == []
    assert len(set(vmi.targets().values())) == 100
    # The second half may not take much longer than the first one, nor hold much more.
    assert took[2] - took[1] < 2.5 * (took[1] - took[0]) + 1
    assert memory[2] - memory[1] < memory[1] - memory[0] + 4096


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "device.img"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"needs a loop device: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def is_free(device: str) -> bool:
    """Whether nobody has a device for themselves."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def test_a_device_that_is_in_use_elsewhere_waits_and_is_then_this_guest_s_alone_until_it_is_detached(
    vmi: HotplugVmi, loop: str
) -> None:
    vmi.sync()
    another = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        vmi.device("data", loop)
        vmi.add("data")
        vmi.sync()
        (trouble,) = wait_until(lambda: troubles(vmi.pod), "a trouble")
        assert "PVC data: its device is in use on this node" in trouble.message
        assert vmi.targets() == {}
    finally:
        os.close(another)
    vmi.wait_for({"data": "sda"})
    assert troubles(vmi.pod) == []
    assert not is_free(loop)

    killed = vmi.pod.launcher_pid()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: _another_launcher(vmi.pod, killed), "another launcher")
    vmi.sync()
    assert not is_free(loop)
    vmi.remove("data")
    vmi.sync()
    vmi.wait_for({})
    wait_until(lambda: is_free(loop), "a free device")
