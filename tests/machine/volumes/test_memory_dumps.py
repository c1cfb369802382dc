"""The memory of a guest of one box, dumped as users ask for it: an ELF core in a claim, again, and let go.

The guest runs on after all of it, also when its launcher or the box is killed in the middle.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import MemoryDumpRequest
from tests.machine.launcher.test_memory_dump import loaded_bytes
from tests.support.api_servers import Kubectl
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400), pytest.mark.incremental]

IMAGE = "local/guest:1"
NAME = "dumped"
CLAIM = "dumps"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.65.0/24", IMAGE) as found:
        yield found


@pytest.fixture(scope="module")
def guest(box: Box) -> HotplugGuest:
    box.apply(hotplug_vm(NAME, IMAGE))
    box.wait_phase(NAME, "Running")
    box.apply(a_claim(CLAIM, resources={"requests": {"storage": "1Gi"}}))
    found = HotplugGuest(box, NAME)
    found.wait_answer()
    return found


@pytest.fixture(scope="module")
def place(guest: HotplugGuest) -> Path:
    """Where the claim's files are on the host, once it is bound."""
    dump(guest, "Completed")
    claim = guest.box.client.get(PersistentVolumeClaim, "default", CLAIM)
    (found,) = guest.box.data_dir.glob(f"volumes/{claim.metadata.uid}")
    return found


def request_of(guest: HotplugGuest) -> MemoryDumpRequest | None:
    return guest.box.vm(NAME).status.memory_dump_request


def wait_for(guest: HotplugGuest, phase: str) -> MemoryDumpRequest:
    def reached() -> MemoryDumpRequest | None:
        found = request_of(guest)
        return found if found is not None and found.phase == phase else None

    try:
        return wait_until(reached, f"the dump is {phase}", 90)
    except AssertionError as error:
        raise AssertionError(f"{error}: {request_of(guest)}\n{guest.vmi().status.volume_status}") from error


def dump(guest: HotplugGuest, phase: str) -> MemoryDumpRequest:
    guest.box.cli("memory-dump", "get", NAME, "--claim-name", CLAIM)
    return wait_for(guest, phase)


def mark_of(guest: HotplugGuest) -> str | None:
    claim = guest.box.client.get(PersistentVolumeClaim, "default", CLAIM)
    return claim.metadata.annotations.get("kubevirt.io/memory-dump")


def dumps_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_a_dump_is_the_guest_s_memory_and_the_next_one_takes_its_place(guest: HotplugGuest, place: Path) -> None:
    first = request_of(guest)
    assert first is not None
    assert first.file_name is not None
    assert dumps_in(place) == [first.file_name]
    assert mark_of(guest) == first.file_name
    found = place / first.file_name
    memory = int(guest.run("awk '/MemTotal/ { print $2 }' /proc/meminfo")) << 10
    assert memory < loaded_bytes(found) < found.stat().st_size
    assert (found.stat().st_uid, found.stat().st_mode & 0o777) == (107, 0o600)
    assert first.start_timestamp is not None
    assert first.end_timestamp is not None
    # What the guest had in its memory is in it.
    guest.run("printf %s%s a-word- that-nothing-else-has >/run/secret")
    second = dump(guest, "Completed")
    assert second.file_name is not None
    assert dumps_in(place) == [second.file_name] != [first.file_name]
    assert b"a-word-that-nothing-else-has" in (place / second.file_name).read_bytes()
    assert guest.run("echo runs").strip() == "runs"
    assert [volume.name for volume in guest.vmi().spec.volumes if volume.memory_dump] == []
    assert not any(entry.name == CLAIM for entry in guest.vmi().status.volume_status)


def test_virtctl_repeats_it_and_lets_the_claim_go(guest: HotplugGuest, place: Path) -> None:
    virtctl = Kubectl(guest.box.kubeconfig, "virtctl")
    before = dumps_in(place)
    assert virtctl.run("memory-dump", "get", NAME) == f"Successfully submitted memory dump request of VM {NAME}\n"
    wait_for(guest, "Completed")
    kept = dumps_in(place)
    assert len(kept) == 1
    assert kept != before
    virtctl.run("memory-dump", "remove", NAME)
    wait_until(lambda: request_of(guest) is None, "the claim is let go", 60)
    template = guest.box.vm(NAME).spec.template
    assert template is not None
    assert [volume.name for volume in template.spec.volumes if volume.memory_dump] == []
    assert dumps_in(place) == kept


def test_a_guest_goes_on_when_its_launcher_is_killed_while_its_memory_is_written(
    guest: HotplugGuest, place: Path
) -> None:
    uid = guest.vmi().metadata.uid
    qemu = guest.box.qemu_pids(uid)
    before = dumps_in(place)
    guest.box.cli("memory-dump", "get", NAME, "--claim-name", CLAIM)
    partial = place / f".{uid}.memory.dump.partial"
    wait_until(lambda: partial.exists() and partial.stat().st_size > 0, "it is being written", 60, pause=0.002)
    # The monitor starts another one.
    os.kill(guest.box.launcher_pids(uid)[-1], signal.SIGKILL)
    # It may just have been whole.
    wait_until(lambda: getattr(request_of(guest), "phase", "") in ("Failed", "Completed"), "its end is told", 90)
    ended = request_of(guest)
    assert ended is not None
    if ended.phase == "Failed":
        assert "the launcher ended" in ended.message
        wait_until(lambda: dumps_in(place) == before, "nothing half is left", 30)
        wait_until(lambda: mark_of(guest) == "Memory dump failed", "the claim says so", 30)
    wait_until(lambda: guest.run("echo runs").strip() == "runs", "the guest runs on", 60)
    assert guest.box.qemu_pids(uid) == qemu
    dump(guest, "Completed")


def test_a_dump_goes_on_when_the_box_is_killed(guest: HotplugGuest, place: Path) -> None:
    box = guest.box
    box.cli("memory-dump", "get", NAME, "--claim-name", CLAIM)
    box.end(signal.SIGKILL)
    box.start()
    done = wait_for(guest, "Completed")
    assert dumps_in(place) == [done.file_name]
    assert guest.run("echo runs").strip() == "runs"
