"""Streams to a running guest, by an unmodified virtctl and by clients that are torn off: nothing but the real thing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvedge.kube.credentials.connection_settings import from_kubeconfig
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.api_servers import Kubectl
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.kvedge_cli import KvedgeCli
from tests.support.ports import free_port
from tests.support.raw_websocket import RawWebSocket
from tests.support.rfb_viewer import password_file
from tests.support.terminal import in_terminal
from tests.support.udp_echo import PORT, udp_echo_script
from tests.support.unpacked_packages import unpack_packages
from tests.support.waiting import comes_within, wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

IMAGE = "local/guest:1"
NAME = "streams"
# What viewers call a display is a port from here on.
_FIRST_DISPLAY = 5900
VMI_PATH = f"/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/{NAME}"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.93.33.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    found.remove()


@pytest.fixture(scope="module")
def guest(box: Box) -> VirtualMachineInstance:
    """A guest with a login prompt, a display, a web page, and a service that sends datagrams back."""
    vm = small_vm(NAME, IMAGE, run_strategy="Manual")
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "init", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "init", "cloudInitNoCloud": {"userData": udp_echo_script()}})
    box.apply(vm)
    box.cli("start", NAME)
    box.wait_answer(NAME)
    return box.wait_phase(NAME, "Running")


@pytest.fixture(scope="module")
def virtctl(box: Box) -> Kubectl:
    return Kubectl(box.kubeconfig, "virtctl")


def command(virtctl: Kubectl, *arguments: str) -> list[str]:
    return [str(virtctl.path), "--kubeconfig", str(virtctl.kubeconfig), *arguments]


@contextlib.contextmanager
def running(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is ended at the end."""
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield process
        process.terminate()


def test_virtctl_shows_the_guests_console_and_a_second_one_takes_over(
    virtctl: Kubectl, guest: VirtualMachineInstance
) -> None:
    console = command(virtctl, "console", NAME)
    with in_terminal(console, os.environ) as (first, _):
        first.wait_for(b"Successfully connected")
        first.type_until("\r", b"login:")
        with in_terminal(console, os.environ) as (second, process):
            second.wait_for(b"Successfully connected")
            # Both may come at once: the second is waited for, after which the first is there.
            first.wait_for(b"You were disconnected from the console.")
            assert b"*** disconnected: another viewer has opened this console ***" in first.seen
            second.type_until("\r", b"login:")
            second.type("nobody\r")
            second.wait_for(b"assword:")
            second.type("\x1d")
            process.wait(10)


def test_virtctl_proxies_the_guests_display(virtctl: Kubectl, guest: VirtualMachineInstance) -> None:
    with running(command(virtctl, "vnc", NAME, "--proxy-only")) as proxy:
        assert proxy.stdout is not None
        port = json.loads(proxy.stdout.readline())["port"]
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            assert client.recv(12) == b"RFB 003.008\n"
            client.sendall(b"RFB 003.008\n")
            # One kind of authentication: none, as who may look was asked before.
            assert client.recv(2) == b"\x01\x01"


def test_a_viewer_of_the_distribution_shows_a_password_and_sees_the_guests_display(
    box: Box, guest: VirtualMachineInstance, tmp_path: Path
) -> None:
    # A real viewer that needs no display of its own: it comes, takes a picture and leaves.
    tree = unpack_packages("vncsnapshot", "vncsnapshot", "libjpeg62-turbo")
    libraries = ":".join(str(path) for path in tree.glob("usr/lib/*-linux-gnu"))
    words, picture = tmp_path / "password", tmp_path / "screen.jpg"

    def take(port: int, password: str) -> subprocess.CompletedProcess[str]:
        words.write_bytes(password_file(password))
        arguments = ["-quiet", "-passwd", str(words), f"127.0.0.1:{port - _FIRST_DISPLAY}", str(picture)]
        viewer = [str(tree / "usr/bin/vncsnapshot"), *arguments]
        environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
        return subprocess.run(viewer, capture_output=True, text=True, env=environment, check=False, timeout=60)

    with KvedgeCli(box.kubeconfig).running("vnc", NAME, "--proxy-only", "--password") as session:
        assert session.stdout is not None
        told = json.loads(session.stdout.readline())
        assert take(told["port"], "a guess!").returncode != 0
        assert not picture.exists()
        done = take(told["port"], told["password"])
        assert done.returncode == 0, done.stderr
        assert picture.read_bytes().startswith(b"\xff\xd8\xff"), "a picture in JPEG"
        assert session.wait(30) == 0, "the viewer has left"


def test_virtctl_forwards_a_tcp_port_of_the_guest(virtctl: Kubectl, guest: VirtualMachineInstance) -> None:
    port = free_port()
    with running(command(virtctl, "port-forward", f"vm/{NAME}/default", f"{port}:80")):

        def page() -> bytes:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 20) as client:
                client.sendall(b"GET /facts HTTP/1.0\r\n\r\n")
                return b"".join(iter(lambda: client.recv(4096), b""))
            return b""

        assert guest.status.interfaces[0].mac.encode() in wait_until(page, "the guest's page").lower()


def test_virtctl_forwards_a_udp_port_of_the_guest(virtctl: Kubectl, guest: VirtualMachineInstance) -> None:
    port = free_port(socket.SOCK_DGRAM)
    forwarding = command(virtctl, "port-forward", f"vmi/{NAME}/default", f"udp/{port}:{PORT}")
    with running(forwarding), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)

        def echoed(text: bytes) -> bool:
            with contextlib.suppress(OSError):
                client.sendto(text, ("127.0.0.1", port))
                return client.recv(2000) == text
            return False

        wait_until(lambda: echoed(b"hello"), "the guest's datagrams come back")
        wait_until(lambda: echoed(b"x" * 1000), "large ones as well")


# Calls that happen to be under way at once for the first time take a thread and a connection that stay; QEMU has pools,
# too. It is less than what 200 streams leave of which every tenth leaves something.
_POOLED = 10
_POOLED_BY_QEMU = 3


@dataclass(frozen=True)
class Held:
    """What the box's process and the guest's QEMU hold."""

    descriptors: int
    threads: int
    guest_descriptors: int

    @classmethod
    def of(cls, box: Box, qemu: int) -> Held:
        assert box.process is not None
        place = Path(f"/proc/{box.process.pid}")
        names = [(task / "comm").read_text() for task in (place / "task").iterdir()]
        return cls(len(os.listdir(place / "fd")), len(names), len(os.listdir(f"/proc/{qemu}/fd")))

    def within(self, other: Held) -> bool:
        """Whether nothing is held beyond what was, but for what pools of threads and connections grow by."""
        return (
            self.descriptors <= other.descriptors + _POOLED
            and self.threads <= other.threads + _POOLED
            and self.guest_descriptors <= other.guest_descriptors + _POOLED_BY_QEMU
        )


def test_nothing_is_left_of_two_hundred_streams_to_a_guest(box: Box, guest: VirtualMachineInstance) -> None:
    connection = from_kubeconfig(box.kubeconfig)
    assert connection.tls is not None
    (qemu,) = box.qemu_pids(guest.metadata.uid)

    async def look(kind: str, torn: bool) -> None:
        url = f"{connection.host}{VMI_PATH}/{kind}"
        stream = await RawWebSocket.open(url, connection.tls, "plain.kubevirt.io")
        if kind == "vnc":
            assert await stream.receive_data() == b"RFB 003.008\n"
        else:
            stream.send(b"\r" if kind == "console" else b"GET /facts HTTP/1.0\r\n\r\n")
            assert await stream.receive_data()
        if torn:
            stream.reset()
        else:
            with contextlib.suppress(asyncio.IncompleteReadError):
                await stream.leave()
            stream.vanish()

    async def many(count: int) -> None:
        for number in range(count):
            await asyncio.wait_for(look(("console", "vnc", "portforward/80")[number % 3], number % 2 == 0), 30)

    asyncio.run(many(40))
    settled = wait_until(lambda: steady(box, qemu), "what is held is steady", 60, 0.5)
    asyncio.run(many(200))
    beyond: list[Held] = []

    def is_back() -> bool:
        beyond[:] = [held] if not (held := Held.of(box, qemu)).within(settled) else []
        return not beyond

    with contextlib.suppress(AssertionError):
        wait_until(is_back, "no more is held", 60, 0.5)
    assert not beyond, f"{beyond[0]} instead of {settled}: {threads_of(box)}"


def threads_of(box: Box) -> Counter[str]:
    """How many of its process' threads have each name, without numbers."""
    assert box.process is not None
    names = [(task / "comm").read_text() for task in Path(f"/proc/{box.process.pid}/task").iterdir()]
    return Counter(name.rstrip("0123456789_-\n") for name in names)


def steady(box: Box, qemu: int) -> Held | None:
    """What is held, once it is the same in several looks."""
    found = {Held.of(box, qemu)}
    comes_within(lambda: found.add(Held.of(box, qemu)) or len(found) > 1, 1.0)
    return found.pop() if len(found) == 1 else None


def test_what_the_guest_wrote_can_be_read_while_it_runs_and_after_its_end(
    box: Box, guest: VirtualMachineInstance
) -> None:
    assert "kvedge-guest: ready" in box.cli("console", "--log", NAME).stdout
    # Of the last ten bytes, control characters of the guest's shell are not shown.
    assert 0 < len(box.cli("console", "--log", NAME, "--tail", "10").stdout.encode()) <= 10
    missing = box.cli("console", "--log", NAME, "--previous", check=False)
    assert missing.returncode == 3
    assert "there is no older log of the serial console" in missing.stderr
    (qemu,) = box.qemu_pids(guest.metadata.uid)
    os.kill(qemu, signal.SIGKILL)
    box.wait_phase(NAME, "Failed")
    assert "kvedge-guest: ready" in box.cli("console", "--log", NAME).stdout
    refused = box.cli("console", NAME, check=False)
    assert refused.returncode == 1
    assert "VMI is in failed status" in refused.stderr
