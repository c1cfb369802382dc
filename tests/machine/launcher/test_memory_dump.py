"""A guest's memory that is written into a file: the file is an ELF core of the right size, and the guest goes on."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.launcher_pod import QEMU_USER, LauncherPod, kill, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

RAM = 64 << 20
ET_CORE = 4
PT_LOAD = 1


def a_file(pod: LauncherPod, volume: str = "dumps") -> Path:
    """The file that the handler would have mounted."""
    directory = pod.directory / "public" / "hotplug-disks"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o777)
    path = directory / f"{volume}.dump"
    path.touch(0o600)
    os.chown(path, QEMU_USER, QEMU_USER)
    return path


def loaded_bytes(path: Path) -> int:
    """How much memory an ELF core says that it holds; it is one, and whole."""
    with path.open("rb") as file:
        header = file.read(64)
        assert header[:6] == b"\x7fELF\x02\x01"
        (kind,) = struct.unpack_from("<H", header, 16)
        assert kind == ET_CORE
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        total = 0
        for index in range(count):
            file.seek(offset + index * size)
            entry = file.read(size)
            if struct.unpack_from("<I", entry)[0] == PT_LOAD:
                start, _, _, length = struct.unpack_from("<QQQQ", entry, 8)
                assert start + length <= path.stat().st_size
                total += length
        return total


def dump(pod: LauncherPod, name: str, volume: str = "dumps") -> m.DomainStatus:
    return pod.call("DumpMemory", m.DumpMemoryRequest(id=name, volume=volume))


def wait_over(pod: LauncherPod, name: str) -> m.MemoryDump:
    def over() -> m.MemoryDump | None:
        found = pod.call("GetDomain").memory_dump
        return found if found.id == name and found.state != m.MEMORY_DUMP_STATE_ACTIVE else None

    return wait_until(over, "the dump is over", seconds=60)


def once_it_goes_on(order: Callable[[], m.DomainStatus]) -> m.DomainStatus:
    """The answer to an order after a dump: until the launcher has seen that the guest goes on, it has to wait."""

    def try_it() -> m.DomainStatus | None:
        try:
            return order()
        except grpc.RpcError as refused:
            if refused.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return None

    found = wait_until(try_it, "the order is taken")
    assert found is not None
    return found


def test_the_memory_is_an_elf_core_and_the_guest_goes_on(pod: LauncherPod) -> None:
    path = a_file(pod)
    pod.sync()
    assert not pod.call("GetDomain").HasField("memory_dump")
    dump(pod, "one")
    assert wait_over(pod, "one") == m.MemoryDump(id="one", state=m.MEMORY_DUMP_STATE_COMPLETE)
    assert loaded_bytes(path) >= RAM
    # The display has 16 MiB, and firmware some, once it has begun.
    assert RAM <= path.stat().st_size <= RAM + (24 << 20)
    assert path.stat().st_mode & 0o077 == 0
    pod.wait_state(m.DOMAIN_STATE_RUNNING)
    # Asked for again it is not made again; another one is, in place of the one before.
    before = path.stat().st_mtime_ns
    dump(pod, "one")
    once_it_goes_on(lambda: dump(pod, "two"))
    wait_over(pod, "two")
    assert path.stat().st_mtime_ns > before
    assert once_it_goes_on(lambda: pod.call("Pause")).reason == m.DOMAIN_REASON_USER
    dump(pod, "three")
    assert wait_over(pod, "three").state == m.MEMORY_DUMP_STATE_COMPLETE
    status = pod.call("GetDomain")
    assert (status.state, status.reason) == (m.DOMAIN_STATE_PAUSED, m.DOMAIN_REASON_USER), "a user's pause stays"


def test_a_dump_without_its_file_fails_and_makes_none(pod: LauncherPod) -> None:
    pod.sync()
    dump(pod, "one", "absent")
    found = wait_over(pod, "one")
    assert found.state == m.MEMORY_DUMP_STATE_FAILED
    assert "absent.dump" in found.message
    assert pod.call("GetDomain").state == m.DOMAIN_STATE_RUNNING
    for name in ("../x", ""):
        with pytest.raises(grpc.RpcError) as refused:
            dump(pod, "two", name)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_guest_goes_on_when_there_is_no_room_for_its_memory(tmp_path: Path, seed: Path) -> None:
    place = "/var/run/kubevirt/hotplug-disks"
    small = (
        f"mkdir -p {place}; mount -t tmpfs -o size={RAM // 2},uid={QEMU_USER} small {place};"
        f" touch {place}/dumps.dump; chown {QEMU_USER} {place}/dumps.dump; "
    )
    with launcher_pod(tmp_path, seed=seed, before=small) as pod:
        pod.sync()
        dump(pod, "one")
        found = wait_over(pod, "one")
        assert found.state == m.MEMORY_DUMP_STATE_FAILED
        assert found.message
        pod.wait_state(m.DOMAIN_STATE_RUNNING)
        assert once_it_goes_on(lambda: pod.call("Pause")).state == m.DOMAIN_STATE_PAUSED


def test_a_guest_goes_on_when_its_launcher_is_killed_while_its_memory_is_written(pod: LauncherPod) -> None:
    path = a_file(pod)
    path.unlink()
    # QEMU writes into a pipe that nobody reads, until somebody does.
    os.mkfifo(path, 0o600)
    os.chown(path, QEMU_USER, QEMU_USER)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    pod.sync()
    (qemu,) = pod.qemu_pids()
    before = pod.launcher_pid()
    dump(pod, "one")
    held = pod.wait_state(m.DOMAIN_STATE_PAUSED)
    assert held.reason == m.DOMAIN_REASON_DUMP
    for order in ("Pause", "Unpause", "Reset"):
        with pytest.raises(grpc.RpcError) as refused:
            pod.call(order)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert pod.call("Shutdown").state == m.DOMAIN_STATE_PAUSED, "it is asked again later"
    kill(before)
    pod.channel.close()
    pod.channel = None
    wait_until(lambda: _is_another(pod, before), "another launcher")
    found = wait_until(lambda: _answers(pod), "the new launcher answers", seconds=60)
    assert found.memory_dump == m.MemoryDump(
        id="one", state=m.MEMORY_DUMP_STATE_FAILED, message=found.memory_dump.message
    )
    assert "the launcher ended" in found.memory_dump.message
    with pytest.raises(grpc.RpcError, match="try again when that is over"):
        dump(pod, "two")

    def runs() -> bool:
        status = _answers(pod)
        return status is not None and status.state == m.DOMAIN_STATE_RUNNING

    with _draining(reader):
        wait_until(runs, "the guest runs again", seconds=60)
    os.close(reader)
    assert pod.qemu_pids() == [qemu]
    path.unlink()
    a_file(pod)
    once_it_goes_on(lambda: dump(pod, "two"))
    assert wait_over(pod, "two").state == m.MEMORY_DUMP_STATE_COMPLETE
    assert loaded_bytes(path) >= RAM


@contextlib.contextmanager
def _draining(reader: int) -> Iterator[None]:
    """Read a pipe as fast as somebody writes into it."""
    ends = threading.Event()

    def drain() -> None:
        while not ends.is_set():
            if select.select([reader], [], [], 0.1)[0]:
                with contextlib.suppress(BlockingIOError):
                    os.read(reader, 1 << 20)

    draining = threading.Thread(target=drain)
    draining.start()
    try:
        yield
    finally:
        ends.set()
        draining.join()


def _is_another(pod: LauncherPod, before: int) -> bool:
    try:
        return pod.launcher_pid() != before
    except OSError:
        return False


def _answers(pod: LauncherPod) -> m.DomainStatus | None:
    try:
        return pod.call("GetDomain")
    except (grpc.RpcError, OSError):
        return None
