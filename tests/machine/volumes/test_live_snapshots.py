"""Snapshots of a VM that runs on one box: one moment of all its disks, and a guest that goes on whatever happens.

The guest writes numbered blocks to its disks in turn, all the time, so that the copies tell of the moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.storage.arriving_mark import ARRIVING
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.held_copies import held_copy
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.live_folders import find_named
from tests.support.numbered_writes import check_one_moment, writer_script
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(500), pytest.mark.incremental]

IMAGE = "local/guest:1"
NAME = "writer"
FILES = ("one", "two")
DEVICE = "three"
# How often a process is killed while a snapshot is taken, or restored: at each step in turn.
ROUNDS = int(os.environ.get("KVEDGE_TEST_SNAPSHOT_KILL_ROUNDS", "1"))
GROUP = "kubevirt.io"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HotplugGuest]:
    """The VM, which writes."""
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.71.0/24", IMAGE, agent=True) as box:
        for name in FILES:
            box.apply(a_claim(name))
        box.apply(a_claim(DEVICE, volumeMode="Block"))
        box.apply(writing_vm())
        made = HotplugGuest(box, NAME)
        box.wait_answer(NAME)
        wait_until(lambda: has_agent(made), "the agent is there", seconds=90)
        made.run(writer_script(*(made.disk(name) for name in (*FILES, DEVICE))))
        wait_until(lambda: number(made) > 3, "the guest writes", seconds=60)
        yield made


def box_of(guest: HotplugGuest) -> Box:
    assert isinstance(guest.box, Box)
    return guest.box


def writing_vm() -> JsonObject:
    made = hotplug_vm(NAME, IMAGE)
    spec: Any = made["spec"]["template"]["spec"]
    for name in (*FILES, DEVICE):
        spec["domain"]["devices"]["disks"].append({"name": name, "disk": {"bus": "virtio"}, "serial": name})
        spec["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": name}})
    return made


def has_agent(guest: HotplugGuest) -> bool:
    return any(each.type == "AgentConnected" and each.status == "True" for each in guest.vmi().status.conditions)


def number(guest: HotplugGuest) -> int:
    """The last block that the guest knows to be on all disks."""
    return int(guest.run("cat /run/number 2>/dev/null || echo 0"))


def writes_on(guest: HotplugGuest) -> None:
    before = number(guest)
    wait_until(lambda: number(guest) > before, "the guest writes on", seconds=30)
    vmi = guest.vmi()
    assert vmi.status.fs_freeze_status == ""
    assert not any(each.type == "Paused" for each in vmi.status.conditions)


def ask(guest: HotplugGuest, name: str, **spec: Any) -> None:
    source = {"apiGroup": GROUP, "kind": "VirtualMachine", "name": NAME}
    guest.box.apply(
        {
            "apiVersion": "snapshot.kubevirt.io/v1beta1",
            "kind": "VirtualMachineSnapshot",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"source": source, **spec},
        }
    )


def snapshot(guest: HotplugGuest, name: str) -> VirtualMachineSnapshot:
    return guest.box.client.get(VirtualMachineSnapshot, "default", name)


def ended(guest: HotplugGuest, name: str, seconds: float = 120) -> VirtualMachineSnapshot:
    def over() -> VirtualMachineSnapshot | None:
        found = snapshot(guest, name)
        return found if found.is_final else None

    return wait_until(over, f"snapshot {name} is over", seconds=seconds)


def place_of(guest: HotplugGuest, claim: str) -> Path:
    """Where the disk of a claim is on the host."""
    found = guest.box.client.get(PersistentVolumeClaim, "default", claim)
    volume = guest.box.client.request("GET", PersistentVolume.KIND.path("", found.spec.volume_name))
    path = Path((volume["spec"].get("local") or volume["spec"].get("hostPath"))["path"])
    return path if found.is_block else path / "disk.img"


def leaves_nothing(guest: HotplugGuest) -> bool:
    """The VM is let go, the launcher has nothing of a copy, and no claim of one is attached."""
    vm, vmi = guest.box.vm(NAME), guest.vmi()
    if vm.status.snapshot_in_progress or vmi.spec.utility_volumes or vmi.status.disk_copy is not None:
        return False
    if any("-copy-" in entry.name for entry in vmi.status.volume_status):
        return False
    return not find_named(box_of(guest).data_dir, "copy-scratch", "copy.sock")


def test_a_snapshot_is_one_moment_of_all_disks_and_is_restored_beside_the_vm_that_runs(guest: HotplugGuest) -> None:
    before = number(guest)
    ask(guest, "first")
    taken = ended(guest, "first")
    after = number(guest)
    assert taken.status.phase == "Succeeded", taken.status
    assert taken.status.ready_to_use
    assert taken.status.indications == ["GuestAgent", "Online"]
    assert taken.status.snapshot_volumes is not None
    assert set(taken.status.snapshot_volumes.included_volumes) == {*FILES, DEVICE}
    copies = [place_of(guest, f"vmsnapshot-{taken.metadata.uid}-volume-{name}") for name in (*FILES, DEVICE)]
    moment = check_one_moment(*copies[:2])
    check_one_moment(copies[1], copies[2])
    assert before <= moment <= after
    assert not list(copies[0].parent.glob(ARRIVING))
    assert copies[0].stat().st_blocks * 512 < 16 << 20
    wait_until(lambda: leaves_nothing(guest), "nothing is left of the copy", seconds=30)
    writes_on(guest)
    restored = restore(guest, "first", "other")
    images = [place_of(guest, restored[name]) for name in (*FILES, DEVICE)]
    assert check_one_moment(*images[:2]) == moment
    check_one_moment(images[1], images[2])


def restore(guest: HotplugGuest, name: str, target: str) -> dict[str, str]:
    """Put a snapshot into another VM; its claims, by volume."""
    ask_restore(guest, name, target)
    return restored(guest, target)


def ask_restore(guest: HotplugGuest, name: str, target: str) -> None:
    guest.box.apply(
        {
            "apiVersion": "snapshot.kubevirt.io/v1beta1",
            "kind": "VirtualMachineRestore",
            "metadata": {"name": target, "namespace": "default"},
            "spec": {
                "target": {"apiGroup": GROUP, "kind": "VirtualMachine", "name": target},
                "virtualMachineSnapshotName": name,
            },
        }
    )


def restored(guest: HotplugGuest, target: str) -> dict[str, str]:
    """The claims that a restore has made, by volume, once it is complete."""

    def done() -> VirtualMachineRestore | None:
        found = guest.box.client.get(VirtualMachineRestore, "default", target)
        assert not found.has_failed, found.status
        return found if found.status.complete else None

    made = wait_until(done, "the restore is complete", seconds=120)
    return {each.volume_name: each.persistent_volume_claim for each in made.status.restores}


def held(guest: HotplugGuest, name: str, **spec: Any) -> contextlib.AbstractContextManager[int]:
    """A snapshot whose copy stands still in the middle."""
    guest.run(f"dd if=/dev/urandom of={guest.disk('one')} bs=1M seek=2 count=24 2>/dev/null", seconds=60)
    return held_copy(lambda: ask(guest, name, **spec), "one-copy-")


def fails(guest: HotplugGuest, name: str, words: str) -> None:
    """The snapshot has failed for this reason, its claims go, and the guest goes on as if nothing had been."""
    found = ended(guest, name)
    assert found.status.phase == "Failed"
    assert found.status.error is not None
    assert words in (found.status.error.message or "")
    is_released(guest, found.metadata.uid)


def is_released(guest: HotplugGuest, uid: str) -> None:
    wait_until(lambda: leaves_nothing(guest), "nothing is left of the copy", seconds=60)

    def claims() -> list[str]:
        found = guest.box.client.list(PersistentVolumeClaim, "default")
        return [each.metadata.name for each in found if each.metadata.name.startswith(f"vmsnapshot-{uid}")]

    wait_until(lambda: not claims(), "its claims go", seconds=60)
    writes_on(guest)


def test_the_snapshot_of_a_killed_launcher_is_gone_on_with(guest: HotplugGuest) -> None:
    with held(guest, "killed-launcher"):
        kill_launcher(guest)
        taken = ended(guest, "killed-launcher")
    assert taken.status.phase == "Succeeded", taken.status
    check_one_moment(*(place_of(guest, f"vmsnapshot-{taken.metadata.uid}-volume-{name}") for name in FILES))


def test_a_killed_box_finds_the_copy_again(guest: HotplugGuest) -> None:
    with held(guest, "killed-box"):
        wait_until(lambda: snapshot(guest, "killed-box").status.creation_time, "the moment is told", seconds=30)
        kill_box(guest)
        claim = f"vmsnapshot-{snapshot(guest, 'killed-box').metadata.uid}-volume-one"
        # Whoever would use it now is told that it is no disk.
        assert (place_of(guest, claim).parent / ARRIVING).exists()
    taken = ended(guest, "killed-box")
    assert taken.status.phase == "Succeeded", taken.status
    assert not (place_of(guest, claim).parent / ARRIVING).exists()
    check_one_moment(*(place_of(guest, f"vmsnapshot-{taken.metadata.uid}-volume-{name}") for name in FILES))
    wait_until(lambda: leaves_nothing(guest), "nothing is left of the copy", seconds=60)
    writes_on(guest)


def test_a_snapshot_that_is_deleted_in_the_middle_leaves_nothing(guest: HotplugGuest) -> None:
    with held(guest, "deleted"):
        uid = snapshot(guest, "deleted").metadata.uid
        said = box_of(guest).cli("stop", NAME, check=False)
        assert said.returncode != 0
        assert 'until snapshot "deleted" completes' in said.stderr
        guest.box.client.delete(VirtualMachineSnapshot, "default", "deleted")
        is_released(guest, uid)
    with pytest.raises(NotFound):
        snapshot(guest, "deleted")


def test_an_agent_that_hangs_fails_the_snapshot_at_its_deadline(guest: HotplugGuest) -> None:
    guest.run("killall -STOP qemu-ga")
    try:
        ask(guest, "hanging", failureDeadline="45s")
        fails(guest, "hanging", "snapshot deadline exceeded")
    finally:
        guest.run("killall -CONT qemu-ga")


def test_a_hotplugged_disk_of_the_vm_is_included_and_a_paused_guest_is_not_frozen(guest: HotplugGuest) -> None:
    guest.box.apply(a_claim("late"))
    guest.add("late", "--serial", "late")
    wait_until(lambda: guest.disk("late"), "the guest has the disk", seconds=60)
    guest.write("late", "plugged in")
    box_of(guest).cli("pause", "vm", NAME)
    ask(guest, "paused")
    taken = ended(guest, "paused")
    box_of(guest).cli("unpause", "vm", NAME)
    assert taken.status.phase == "Succeeded", taken.status
    assert taken.status.indications == ["Online", "Paused"]
    assert taken.status.snapshot_volumes is not None
    assert "late" in taken.status.snapshot_volumes.included_volumes
    copy = place_of(guest, f"vmsnapshot-{taken.metadata.uid}-volume-late")
    assert copy.read_bytes()[:10] == b"plugged in"
    writes_on(guest)


# What is seen of a snapshot when a process is killed.
STEPS: dict[str, Callable[[HotplugGuest, VirtualMachineSnapshot], object]] = {
    "it is asked for": lambda _guest, _found: True,
    "its content is there": lambda _guest, found: found.status.virtual_machine_snapshot_content_name,
    "the launcher copies": lambda guest, _found: guest.vmi().status.disk_copy,
    "its moment is told": lambda _guest, found: found.status.creation_time,
    "it is over": lambda _guest, _found: False,
}


@pytest.mark.timeout(100 + 200 * ROUNDS)
def test_of_whatever_is_killed_at_any_step_a_snapshot_is_one_moment_or_has_failed(guest: HotplugGuest) -> None:
    deaths = [(step, victim) for step in STEPS for victim in (kill_box, kill_launcher)]
    # The first one of a usual run is of a box whose launcher copies.
    good = [die(guest, number_, *deaths[(number_ + 4) % len(deaths)]) for number_ in range(ROUNDS)]
    assert any(good) or not ROUNDS


def die(guest: HotplugGuest, number_: int, step: str, kill: Callable[[HotplugGuest], None]) -> bool:
    """Kill at this step of a snapshot, and the box while it is restored if it is good; whether it is."""
    name, twin, before = f"death-{number_}", f"twin-{number_}", number(guest)
    ask(guest, name)
    wait_until(lambda: has_come(guest, name, step), f"{step} ({name})", seconds=120)
    kill(guest)
    taken = ended(guest, name)
    uid = taken.metadata.uid
    if is_good := taken.status.phase == "Succeeded":
        wait_until(lambda: snapshot(guest, name).status.ready_to_use, "it is ready", seconds=120)
        moment = one_moment(guest, [f"vmsnapshot-{uid}-volume-{volume}" for volume in (*FILES, DEVICE)])
        assert before <= moment <= number(guest), step
        ask_restore(guest, name, twin)
        kill_box(guest)
        made = restored(guest, twin)
        assert one_moment(guest, [made[volume] for volume in (*FILES, DEVICE)]) == moment, step
        box_of(guest).remove_vm(twin)
    else:
        assert taken.status.error is not None, step
        assert taken.status.error.message, step
    guest.box.client.delete(VirtualMachineSnapshot, "default", name)
    is_released(guest, uid)
    return is_good


def has_come(guest: HotplugGuest, name: str, step: str) -> bool:
    found = snapshot(guest, name)
    return found.is_final or bool(STEPS[step](guest, found))


def one_moment(guest: HotplugGuest, claims: list[str]) -> int:
    """The number that the disks of these claims, in the order of the guest's writes, end with."""
    images = [place_of(guest, claim) for claim in claims]
    moment = check_one_moment(*images[:2])
    check_one_moment(*images[1:])
    return moment


def kill_box(guest: HotplugGuest) -> None:
    box_of(guest).end(signal.SIGKILL)
    box_of(guest).start()


def kill_launcher(guest: HotplugGuest) -> None:
    """Its monitor starts another one."""
    os.kill(box_of(guest).launcher_pids(guest.vmi().metadata.uid)[-1], signal.SIGKILL)


def test_a_guest_that_ends_meanwhile_fails_the_snapshot(guest: HotplugGuest) -> None:
    with held(guest, "ended"):
        for pid in box_of(guest).qemu_pids(guest.vmi().metadata.uid):
            os.kill(pid, signal.SIGKILL)
        found = ended(guest, "ended")
    assert found.status.phase == "Failed"
    assert found.status.error is not None
    assert "ended while its disks were copied" in (found.status.error.message or "")
    wait_until(lambda: not guest.box.vm(NAME).status.snapshot_in_progress, "the VM is let go", seconds=30)
