"""Which process the handler takes for a Pod's launcher, with real namespaces, listeners and numbers that come again."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.guest.guest_network import GuestNetwork, Resolver, resolver_of
from kvedge.handler.held_process import HeldProcess, identity_of
from kvedge.handler.launchers.launcher_connections import LauncherCallError, LauncherConnections
from kvedge.handler.launchers.launcher_socket import Unexpected, hold_listener, open_socket, volume_directory
from kvedge.network.errors import NetworkError
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.machine.handler.numbered_process import numbered_process
from tests.support.builders import bridged, vmi_with
from tests.support.launcher_pod import UID, LauncherPod, launcher_pod
from tests.support.waiting import wait_until

POD, OTHER = "44444444-4444-4444-4444-444444444444", "55555555-5555-5555-5555-555555555555"
KEY = ("default", "web")
PROGRAM = Path(__file__).with_name("listening_pod.py")
SOCKET = "/run/kubevirt/sockets/launcher-sock"


class Pods:
    """Pods in a kubelet's directory, and the handler's connections to them."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.kubelet = path / "kubelet"
        self.changes: list[tuple[str, str]] = []
        self._stack = stack

    def volume(self, uid: str) -> Path:
        """Where the launcher's socket is."""
        return volume_directory(self.kubelet, uid, "sockets")

    def start(self, uid: str, *how: str) -> LauncherPod:
        """A Pod that answers as the launcher of the VMI."""
        command = [sys.executable, "-P", str(PROGRAM), SOCKET, UID, *how]
        pod = self._stack.enter_context(launcher_pod(self.volume(uid).parent, command=command))
        wait_until((self.volume(uid) / "launcher-sock").exists, "its socket")
        return pod

    def listener(self, uid: str) -> HeldProcess:
        """Who listens, if it is to be believed."""
        found = open_socket(self.volume(uid), "launcher-sock")
        try:
            return self._stack.enter_context(hold_listener(found, self.volume(uid)))
        finally:
            os.close(found)

    @contextmanager
    def connections(self) -> Iterator[LauncherConnections]:
        """The handler's, to the VMI's launcher in the Pod."""
        made = LauncherConnections(self.kubelet, self.changes.append)
        made.start()
        try:
            made.ensure(KEY, UID, POD)
            yield made
        finally:
            made.stop()


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with ExitStack() as stack:
        yield Pods(tmp_path, stack)


def number_told(volume: Path) -> int:
    """The number that the kernel tells of who listens."""
    with socket.socket(socket.AF_UNIX) as client:
        descriptor = os.open(volume / "launcher-sock", os.O_PATH)
        client.connect(f"/proc/self/fd/{descriptor}")
        os.close(descriptor)
        told = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", told)[0])


def network_of(pid: int) -> tuple[int, int]:
    return identity_of(os.stat(f"/proc/{pid}/ns/net"))


def test_a_launcher_is_held_with_its_pod_s_root_and_namespaces(pods: Pods) -> None:
    pods.start(POD)
    launcher = pods.listener(POD)

    assert launcher.pid == number_told(pods.volume(POD))
    with launcher.namespace("net") as net, launcher.root() as root:
        assert identity_of(os.fstat(net)) == network_of(launcher.pid) != network_of(os.getpid())
        assert os.path.exists(f"/proc/self/fd/{root}/run/kubevirt/sockets/launcher-sock")
    assert launcher.identify_directory("/var/run/kubevirt/sockets") == identity_of(pods.volume(POD).stat())


def test_a_child_that_listened_and_ended_is_not_believed(pods: Pods) -> None:
    pods.start(POD, "dead")

    with pytest.raises(Unexpected, match=rf"nobody of this Pod: process {number_told(pods.volume(POD))} has ended"):
        pods.listener(POD)


def test_a_process_of_another_pod_that_has_the_number_now_is_not_believed(pods: Pods) -> None:
    pods.start(POD, "dead")
    other = pods.start(OTHER)
    number = number_told(pods.volume(POD))
    with numbered_process(number, other.monitor_pid()):
        assert network_of(number) == network_of(other.monitor_pid()), "so the number leads to the other Pod"
        with pytest.raises(Unexpected, match=rf"process {number} without this Pod's volume"):
            pods.listener(POD)


def test_a_process_of_the_same_pod_that_has_the_number_now_harms_nobody(pods: Pods) -> None:
    pod = pods.start(POD, "dead")
    number = number_told(pods.volume(POD))
    with numbered_process(number, pod.monitor_pid()), pods.listener(POD).namespace("net") as net:
        assert identity_of(os.fstat(net)) == network_of(pod.monitor_pid())


def test_a_launcher_whose_number_is_another_pod_s_is_never_connected(
    pods: Pods, caplog: pytest.LogCaptureFixture
) -> None:
    pods.start(POD, "dead")
    other = pods.start(OTHER)
    with numbered_process(number_told(pods.volume(POD)), other.monitor_pid()), pods.connections() as connections:
        wait_until(lambda: "launcher socket refused" in caplog.text, "the refusal")
        assert not connections.view(KEY).connected
        with pytest.raises(LauncherCallError), connections.launcher(KEY):
            raise AssertionError("it was given out")
    assert pods.changes == []


def test_a_held_launcher_that_ends_stays_itself_when_its_number_is_another_pod_s(pods: Pods) -> None:
    first, other = pods.start(POD), pods.start(OTHER)
    launcher = pods.listener(POD)
    end(first, launcher)
    with numbered_process(launcher.pid, other.monitor_pid()):
        for opening in (launcher.root(), launcher.namespace("net"), launcher.namespace("mnt")):
            with pytest.raises(ProcessLookupError, match=f"process {launcher.pid} has ended"), opening:
                raise AssertionError("something of the other Pod was opened")
        with pytest.raises(ProcessLookupError):
            launcher.identity("net")


def test_a_launcher_that_ends_before_its_network_is_made_is_tried_again_later(pods: Pods, tmp_path: Path) -> None:
    first, other = pods.start(POD), pods.start(OTHER)
    launcher = pods.listener(POD)
    end(first, launcher)
    network = GuestNetwork(tmp_path / "state")
    before = links_of(other)
    with (
        numbered_process(launcher.pid, other.monitor_pid()),
        pytest.raises(NetworkError, match=f"network of the launcher's Pod: process {launcher.pid} has ended"),
    ):
        network.prepare(vmi(), launcher, Resolver())
    with numbered_process(launcher.pid, other.monitor_pid()), pytest.raises(NetworkError, match=r"resolv\.conf"):
        network.resolver(launcher)
    assert list((tmp_path / "state").glob("*")) == []
    assert links_of(other) == before != []


def test_a_connection_gives_its_launcher_out_until_it_ends_and_keeps_nothing(pods: Pods) -> None:
    pod = pods.start(POD)
    with pods.connections() as connections:
        wait_until(lambda: connections.view(KEY).connected, "the connection")
        with connections.launcher(KEY) as launcher:
            end(pod, launcher)
            wait_until(lambda: not connections.view(KEY).connected, "its end")
            # What was given out is still its own, whatever is opened meanwhile.
            with open("/dev/null"), pytest.raises(ProcessLookupError), launcher.root():
                raise AssertionError("something else was opened")
        with pytest.raises(LauncherCallError, match="not connected"), connections.launcher(KEY):
            raise AssertionError("it was given out")
        assert held_processes() == []


def test_a_connection_that_is_dropped_keeps_nothing(pods: Pods) -> None:
    pods.start(POD)
    with pods.connections() as connections:
        wait_until(lambda: connections.view(KEY).connected, "the connection")
        assert len(held_processes()) == 1
        connections.drop(KEY)
        wait_until(lambda: held_processes() == [], "its end")


def test_a_process_that_has_left_the_node_s_users_is_not_believed() -> None:
    liar = subprocess.Popen(["unshare", "--user", "--mount", "--net", "sleep", "1000"])
    try:
        wait_until(lambda: Path(f"/proc/{liar.pid}/comm").read_text() == "sleep\n", "its own users")
        with HeldProcess.of(liar.pid) as held:
            for opening in (held.root(), held.namespace("net")):
                with pytest.raises(PermissionError, match="left the node's user namespace"), opening:
                    raise AssertionError("it was believed")
    finally:
        liar.kill()
        liar.wait()


def test_a_process_that_nobody_has_waited_for_has_ended() -> None:
    zombie = subprocess.Popen(["true"])
    try:
        wait_until(lambda: ") Z " in Path(f"/proc/{zombie.pid}/stat").read_text(), "its end")
        with (
            HeldProcess.of(zombie.pid) as held,
            pytest.raises(ProcessLookupError, match=f"process {zombie.pid} has ended"),
            held.root(),
        ):
            raise AssertionError("it was opened")
    finally:
        zombie.wait()


@pytest.mark.parametrize(
    ("before", "nameservers"),
    [
        pytest.param("echo nameserver 10.9.9.9 > $pod/resolv", ("10.9.9.9",), id="a file"),
        pytest.param("ln -s /run/elsewhere $pod/resolv; echo nameserver 10.8.8.8 > /run/elsewhere", None, id="a link"),
        pytest.param("mkfifo $pod/resolv", None, id="a pipe, which nobody writes to"),
    ],
)
def test_a_pod_s_resolver_is_its_own_file_or_the_host_s(
    tmp_path: Path, before: str, nameservers: tuple[str, ...] | None
) -> None:
    # The Pod's /etc is one that it could have filled itself.
    etc = (
        'mkdir "$pod/etc"; ' + before.replace("$pod/resolv", "$pod/etc/resolv.conf") + '; mount --bind "$pod/etc" /etc'
    )
    with launcher_pod(tmp_path, command=["/bin/sleep", "1000"], before=etc) as pod:
        inside = wait_until(lambda: sleeping(pod), "its program")
        with HeldProcess.of(inside) as held:
            found = resolver_of(held)
    with HeldProcess.of(os.getpid()) as own:
        hosts = resolver_of(own)
    assert found.nameservers == (hosts.nameservers if nameservers is None else nameservers)


def links_of(pod: LauncherPod) -> list[str]:
    """The names of a Pod's links."""
    return [line.split(":")[1] for line in pod.run("ip", "-o", "link").splitlines()]


def sleeping(pod: LauncherPod) -> int:
    monitor = pod.monitor_pid()
    return monitor if Path(f"/proc/{monitor}/comm").read_text() == "sleep\n" else 0


def end(pod: LauncherPod, launcher: HeldProcess) -> None:
    """Kill it and see that its number is free."""
    os.kill(launcher.pid, signal.SIGKILL)
    pod.process.wait(10)
    wait_until(lambda: not Path(f"/proc/{launcher.pid}").exists(), "its number free")


def held_processes() -> list[str]:
    """The directories of processes that this one has open."""
    found: list[Any] = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return [path for path in found if path.removeprefix("/proc/").isdigit()]


def vmi() -> VirtualMachineInstance:
    return vmi_with(bridged(macAddress="52:54:00:00:00:01"), uid=UID)
