# Tests: kvedge/standalone/agent/warm/warm_parent.py, kvedge/standalone/agent/warm/warm_starts.py
# Tests: kvedge/launcher/warm_launcher.py, kvedge/launcher/libvirt/log_settings.py
"""Launchers that are copies of a warm parent: as those that start apart, and as independent of everything."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.launcher.run import wind_down
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.bench.bench_guest import bench_vmi
from tests.support.box import Box, processes
from tests.support.guest_box import left_behind
from tests.support.process_looks import look_at, parent_of, read_memory
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(280)]

# The first two start apart, as a parent pays from the third on.
APART, WARM = ("apart-1", "apart-2"), ("copied-1", "copied-2")
SECONDS = 150.0


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.97.61.0/24")
    found.options += ["--launcher-start", "warm"]
    found.data_dir.mkdir()
    try:
        found.start()
        for name in (*APART, *WARM):
            run(found, name)
        yield found
    finally:
        found.remove()
    assert [line for line in left_behind(found, "nothing") if line.startswith("process")] == []


def run(box: Box, name: str) -> str:
    """A guest without a disk; its VMI's UID."""
    box.apply(bench_vmi(name, network=True))
    return box.wait_phase(name, "Running", SECONDS).metadata.uid


def vmi_of(box: Box, name: str) -> VirtualMachineInstance:
    vmi = box.vmi(name)
    assert vmi is not None
    return vmi


def uid_of(box: Box, name: str) -> str:
    return vmi_of(box, name).metadata.uid


def launcher(box: Box, name: str) -> int:
    """The launcher proper, which is its monitor's child."""
    return box.launcher_pids(uid_of(box, name))[-1]


def parents(box: Box) -> list[int]:
    """The processes of this box from which launchers are forked."""
    assert box.process is not None
    return [pid for pid, words in processes() if "warm-launchers" in words and parent_of(pid) == box.process.pid]


def layout(pid: int) -> str:
    """Where the C library lies in a process' memory, which is random for each exec(2)."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return next(line for line in lines if "/libc.so" in line).partition("-")[0]


def differences(one: dict[str, object], other: dict[str, object]) -> list[str]:
    assert one.keys() == other.keys()
    return [f"{key}: {tell(one[key], other[key])}" for key in one if one[key] != other[key]]


def tell(one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):
        # Lists may be long.
        lacks, more = Counter(one) - Counter(other), Counter(other) - Counter(one)
        return f"{sorted(lacks.elements())} became {sorted(more.elements())}"
    return f"{one!r} became {other!r}"


def test_the_first_launchers_start_apart_and_later_ones_are_copies_of_one_parent(box: Box) -> None:
    layouts = [layout(launcher(box, name)) for name in (*APART, *WARM)]

    (parent,) = parents(box)
    assert layouts[2:] == [layout(parent)] * 2
    assert len(set(layouts)) == 3


@pytest.mark.parametrize("kind", ["launcher", "monitor", "QEMU"])
def test_what_runs_for_a_guest_is_the_same_in_either_way(box: Box, kind: str) -> None:
    found: list[str] = []

    def compare() -> bool:
        found[:] = differences(*(look(box, name, kind) for name in ("apart-2", "copied-2")))
        return not found

    # A thread of libvirt's, which brings a descriptor, begins later than the guest.
    try:
        wait_until(compare, "no difference", 30)
    except AssertionError as error:
        raise AssertionError(found) from error


def look(box: Box, name: str, kind: str) -> dict[str, object]:
    uid, pid = uid_of(box, name), launcher(box, name)
    (pod,) = box.pods(vmi_of(box, name))
    pids = {"launcher": pid, "monitor": parent_of(pid), "QEMU": box.qemu_pids(uid)[0]}
    own = {pod.metadata.name: "POD", name: "NAME", uid: "VMI", pod.metadata.uid: "UID", pod.status.pod_ip: "IP"}
    return look_at(pids[kind], own)


def test_nothing_of_one_guest_is_in_the_memory_of_another_or_of_the_parent(box: Box) -> None:
    names = (*APART, *WARM)
    words = {name: [uid_of(box, name).encode(), name.encode()] for name in names}
    assert words["copied-2"][0] in read_memory(launcher(box, "copied-2"))

    (parent,) = parents(box)
    for name, pid in {"copied-2": launcher(box, "copied-2"), "": parent}.items():
        memory = read_memory(pid)
        assert [word for other in names if other != name for word in words[other] if word in memory] == []


def test_copies_draw_secrets_of_their_own(box: Box) -> None:
    def key_of(name: str) -> bytes:
        """What libvirt draws for a guest, to encrypt what it tells QEMU."""
        root = Path(f"/proc/{launcher(box, name)}/root/run/kubevirt-private/libvirt/lib/qemu")
        (key,) = root.glob("domain-*/master-key.aes")
        return key.read_bytes()

    keys = {key_of(name) for name in (*APART, *WARM)}
    assert {len(key) for key in keys} == {32}
    assert len(keys) == 4


def test_a_launcher_that_is_killed_is_followed_by_one_that_finds_its_guest(box: Box) -> None:
    uid, before = uid_of(box, "copied-1"), launcher(box, "copied-1")
    (guest,) = box.qemu_pids(uid)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: launcher(box, "copied-1") not in (before, parent_of(guest)), "another launcher", SECONDS)
    # The process is there before it has found its guest, and answers "try again" until it has.
    wait_until(lambda: box.cli("pause", "vmi", "copied-1", check=False).returncode == 0, "a guest that pauses", SECONDS)
    box.cli("unpause", "vmi", "copied-1")

    assert box.qemu_pids(uid) == [guest]


def test_a_parent_whose_program_was_replaced_forks_no_more(box: Box) -> None:
    (parent,) = parents(box)
    path = str(wind_down.__file__)
    facts = os.stat(path)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 10**9))
    try:
        run(box, "upgraded")
        wait_until(lambda: parents(box) == [], "the parent's end", SECONDS)
    finally:
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    assert layout(launcher(box, "upgraded")) != layout(launcher(box, "copied-2"))
    assert f"{path} is not what it was" in box.log.read_text()
    assert not Path(f"/proc/{parent}").exists()


def test_a_parent_that_is_killed_takes_no_guest_along(box: Box) -> None:
    names = (*APART, *WARM)
    guests = {name: box.qemu_pids(uid_of(box, name)) for name in names}
    # The back-off of the test before may not be over yet.
    wait_until(lambda: bool(parents(box)) or not run_again(box, "next"), "another parent", SECONDS)
    (parent,) = parents(box)
    copied = layout(parent)
    os.kill(parent, signal.SIGKILL)
    run(box, "after")

    assert layout(launcher(box, "after")) != copied
    assert {name: box.qemu_pids(uid_of(box, name)) for name in names} == guests


def run_again(box: Box, name: str) -> str:
    """A guest, and no other of its name."""
    if box.vmi(name) is not None:
        box.client.delete(VirtualMachineInstance, "default", name)
        box.wait_gone(name)
    return run(box, name)


def test_the_parent_ends_with_an_agent_that_is_killed_and_guests_do_not(box: Box) -> None:
    names = (*APART, *WARM)
    wait_until(lambda: bool(parents(box)) or not run_again(box, "next"), "another parent", SECONDS)
    (parent,) = parents(box)
    pids = {name: (box.launcher_pids(uid_of(box, name)), box.qemu_pids(uid_of(box, name))) for name in names}
    box.end(signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{parent}").exists(), "the parent's end", SECONDS)
    box.start()
    for name in names:
        box.wait_phase(name, "Running", SECONDS)
        box.cli("pause", "vmi", name)
        box.cli("unpause", "vmi", name)

    assert {name: (box.launcher_pids(uid_of(box, name)), box.qemu_pids(uid_of(box, name))) for name in names} == pids
    assert parents(box) == []
