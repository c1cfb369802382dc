"""The door to launchers: which VMI's sockets and files are opened, and what is said when they are not there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from kvedge.handler.launchers.console_log import LogRequest
from kvedge.handler.launchers.launcher_connections import LauncherCallError
from kvedge.handler.launchers.launcher_door import NodeLaunchers
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.network.errors import NetworkError
from kvedge.network.insight.capture import CaptureRequest
from kvedge.network.insight.packet_way import Hop
from kvedge.network.link_types import Link
from kvedge.resources.codec import decode, decode_json
from kvedge.resources.guest_verbs import RELAYED_VERBS
from kvedge.resources.types.devices import EmptyBinding, Interface
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from kvedge.resources.types.volumes import MultusNetwork, Network
from kvedge.resources.usage.guest_history import GuestHistory
from kvedge.rpc.launcher_pb2 import Milestones
from tests.support.builders import small_vmi

POD = "22222222-2222-4222-8222-222222222222"
UID = "11111111-1111-4111-8111-111111111111"


class Vmis:
    """An informer's store with at most one VMI."""

    def __init__(self) -> None:
        self.vmi: VirtualMachineInstance | None = None

    def get(self, namespace: str, name: str) -> VirtualMachineInstance | None:
        return self.vmi if (namespace, name) == ("default", "small") else None


class Connections:
    """Launchers that are connected, by name."""

    def __init__(self) -> None:
        self.connected: dict[tuple[str, str], str] = {}
        # None: a launcher of an earlier version.
        self.milestones_of_launcher: dict[str, int] | None = None

    def pod_uid(self, key: tuple[str, str]) -> str | None:
        return self.connected.get(key)

    def milestones(self, key: tuple[str, str]) -> dict[str, int]:
        return {"pod-seen": 5}

    async def call_async(self, key: tuple[str, str], method: str, request: object, seconds: float) -> object:
        if method == "GetMilestones" and self.milestones_of_launcher is not None:
            return Milestones(unix_ms=self.milestones_of_launcher)
        if method == "GetMilestones":
            raise LauncherCallError(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        raise LauncherCallError(grpc.StatusCode.FAILED_PRECONDITION, "the QEMU guest agent is not connected")

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()


class Events:
    """What was recorded."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str]] = []

    def record(self, about: VirtualMachineInstance, type_: str, reason: str, message: str) -> None:
        self.recorded.append((type_, reason, message))


def told(vmi: VirtualMachineInstance, span: str) -> GuestHistory:
    """What its handler has kept of a guest."""
    return GuestHistory(span=f"{span} of {vmi.metadata.name}")


class Node:
    """One node with one VMI's Pod."""

    def __init__(self, kubelet: Path) -> None:
        self.vmis, self.connections = Vmis(), Connections()
        self.volume = kubelet / "pods" / POD / "volumes/kubernetes.io~empty-dir/private"
        (self.volume / UID).mkdir(parents=True)
        self.events = Events()
        self.door = NodeLaunchers(self.vmis, self.connections, self.events, kubelet, "node1", None, told)  # type: ignore[arg-type]

    def run(self, phase: str, *, node: str = "node1", connected: bool = True, pod: str = POD) -> None:
        """The VMI is in this phase."""
        document = small_vmi()
        document["metadata"]["uid"] = UID
        document["status"] = {"phase": phase, "nodeName": node, "activePods": {"other": "node2", pod: node}}
        self.vmis.vmi = decode(VirtualMachineInstance, document)
        self.connections.connected = {("default", "small"): POD} if connected else {}

    def log(self, name: str = "small") -> bytes:
        return asyncio.run(self.door.console_log("default", name, LogRequest()))

    def refusal(self, kind: str) -> tuple[int, str]:
        """What is said to who wants a stream that is not to be had."""
        with pytest.raises(DoorError) as refused:
            asyncio.run(self.door.open_stream("default", "small", RELAYED_VERBS[kind]))
        found = refused.value.status, refused.value.message
        if found[0] != 503:
            # Whether somebody listens is not tried where nothing is to be disturbed.
            with pytest.raises(DoorError, match=re.escape(found[1])):
                self.door.check_stream("default", "small", RELAYED_VERBS[kind])
        return found


@contextlib.contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name that a socket may have for any path, by way of its directory's descriptor."""
    directory = os.open(path.parent, os.O_PATH)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_stream_is_the_socket_in_the_pods_own_volume(node: Node) -> None:
    node.run("Running")
    with socket.socket(socket.AF_UNIX) as listening:
        # A path that is longer than sockets' names may be.
        with short_name(node.volume / UID / "virt-serial0") as name:
            listening.bind(name)
        listening.listen()

        async def test() -> None:
            _, writer = await node.door.open_stream("default", "small", RELAYED_VERBS["console"])
            guest, _ = listening.accept()
            writer.write(b"typed")
            await writer.drain()
            assert guest.recv(10) == b"typed"
            guest.close()
            writer.close()
            await writer.wait_closed()

        asyncio.run(test())


def test_what_is_not_there_is_told_apart(node: Node) -> None:
    assert node.refusal("console") == (404, "VMI default/small is not on node node1")
    node.run("Running", node="node2")
    assert node.refusal("console") == (404, "VMI default/small is not on node node1")
    node.run("Running", connected=False)
    assert node.refusal("vnc") == (400, "VMI is not running")
    node.run("Succeeded")
    assert node.refusal("vnc") == (400, "VMI is not running")
    node.run("Running")
    assert node.refusal("vnc") == (400, "VMI default/small has no vnc")
    (node.volume / UID / "virt-vnc").write_text("no socket")
    status, message = node.refusal("vnc")
    assert status == 500
    assert "is not what a launcher makes" in message
    with socket.socket(socket.AF_UNIX) as nobody, short_name(node.volume / UID / "virt-serial0") as name:
        nobody.bind(name)
    status, message = node.refusal("console")
    assert status == 503
    assert "does not answer" in message


def test_a_log_is_read_of_a_guest_that_runs_and_of_one_that_has_ended(node: Node) -> None:
    (node.volume / UID / "virt-serial0-log").write_bytes(b"boot\xff")
    node.run("Running")
    assert node.log() == b"boot\xff"
    node.run("Failed", connected=False)
    assert node.log() == b"boot\xff"


def test_a_log_that_is_not_there_is_not_found(node: Node) -> None:
    def refusal() -> tuple[int, str]:
        with pytest.raises(DoorError) as refused:
            node.log()
        return refused.value.status, refused.value.message

    assert refusal() == (404, "VMI default/small is not on node node1")
    node.run("Running")
    assert refusal() == (404, "there is no log of the serial console of VMI default/small")
    node.run("Failed", connected=False, pod="../../elsewhere")
    assert refusal() == (404, "VMI default/small has no Pod on node node1")
    node.run("Running")
    (node.volume / UID / "virt-serial0-log").symlink_to("/etc/hostname")
    status, message = refusal()
    assert status == 500
    assert "cannot be read" in message


@pytest.mark.parametrize("verb", ["freeze", "unfreeze", "softreboot"])
def test_a_freeze_that_fails_is_an_event_of_the_vmi(node: Node, verb: str) -> None:
    node.run("Running")
    with pytest.raises(DoorError, match="not connected") as refused:
        asyncio.run(node.door.call("default", "small", RELAYED_VERBS[verb], {"unfreezeSeconds": 0}))
    assert refused.value.status == 409
    said = ("Warning", "FreezeError", "Failed to freeze VMI: the QEMU guest agent is not connected")
    assert node.events.recorded == ([said] if verb == "freeze" else [])


def test_the_way_of_a_guests_packets_is_told_of_each_interface(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, dict[str, int], dict[str, list[str]]]] = []

    def read(netns: int, nics: dict[str, int], addresses: dict[str, list[str]]) -> dict[str, list[Hop]]:
        asked.append((netns, nics, addresses))
        return {nic: [Hop("pod", Link(2, f"tap-{nic}", "tun", "", 1500, up=True))] for nic in nics}

    launcher = SimpleNamespace(namespace=lambda kind: contextlib.nullcontext(7))
    monkeypatch.setattr(f"{NodeLaunchers.__module__}.read_ways", read)
    node.run("Running")
    node.connections.launcher = lambda key: contextlib.nullcontext(launcher)  # type: ignore[attr-defined]
    assert node.vmis.vmi is not None
    row = InterfaceStatus(name="default", mac="m", ip_addresses=["10.99.0.7"], info_source="domain")
    node.vmis.vmi.status.interfaces = [row]
    told = asyncio.run(node.door.network("default", "small"))
    assert asked == [(7, {"eth0": 0}, {"eth0": ["10.99.0.7"]})]
    (shown,) = told["interfaces"]
    assert (told["node"], shown["name"], shown["binding"]) == ("node1", "default", "bridge")
    assert shown["status"]["infoSource"] == "domain"
    assert [hop["name"] for hop in shown["way"]] == ["tap-eth0"]


def test_links_that_cannot_be_read_are_told_as_such(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise NetworkError("cannot list links")

    launcher = SimpleNamespace(namespace=lambda kind: contextlib.nullcontext(7))
    monkeypatch.setattr(f"{NodeLaunchers.__module__}.read_ways", read)
    node.run("Running")
    node.connections.launcher = lambda key: contextlib.nullcontext(launcher)  # type: ignore[attr-defined]
    with pytest.raises(DoorError) as refused:
        asyncio.run(node.door.network("default", "small"))
    assert (refused.value.status, refused.value.message) == (
        503,
        "the links of VMI default/small cannot be read: cannot list links",
    )


def test_frames_are_recorded_on_the_interface_that_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, tuple[str, ...]]] = []

    def record(netns: int, links: tuple[str, ...], *_: object) -> bytes:
        asked.append((netns, links))
        return b"pcap"

    launcher = SimpleNamespace(namespace=lambda kind: contextlib.nullcontext(7))
    monkeypatch.setattr(f"{NodeLaunchers.__module__}.capture", record)
    node.run("Running")
    node.connections.launcher = lambda key: contextlib.nullcontext(launcher)  # type: ignore[attr-defined]
    for name in ("", "default"):
        assert asyncio.run(node.door.capture("default", "small", CaptureRequest(name))) == b"pcap"
    assert asked == [(7, ("tap0",)), (7, ("tap0",))]
    with pytest.raises(DoorError) as refused:
        asyncio.run(node.door.capture("default", "small", CaptureRequest("lan")))
    said = "VMI default/small has no interface 'lan'; it has default"
    assert (refused.value.status, refused.value.message) == (404, said)


def test_frames_of_a_function_of_the_nodes_nic_are_the_guests_alone(node: Node) -> None:
    node.run("Running")
    vmi = node.vmis.vmi
    assert vmi is not None
    vmi.spec.domain.devices.interfaces.append(Interface(name="fast", sriov=EmptyBinding()))
    vmi.spec.networks.append(Network(name="fast", multus=MultusNetwork(network_name="red")))
    with pytest.raises(DoorError, match="is a function of its node's NIC: only the guest sees its frames") as refused:
        asyncio.run(node.door.capture("default", "small", CaptureRequest("fast")))
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("noted", "told"),
    [
        (
            {"started": 9, "serving": 7, "x" * 100: 1},
            [{"step": "serving", "unixMs": 7}, {"step": "started", "unixMs": 9}],
        ),
        (None, []),
    ],
    ids=["a launcher that tells", "a launcher of an earlier version"],
)
def test_the_steps_of_a_start_are_the_launchers_and_the_handlers(
    node: Node, noted: dict[str, int] | None, told: list[object]
) -> None:
    node.run("Running")
    node.connections.milestones_of_launcher = noted
    found = asyncio.run(node.door.call("default", "small", RELAYED_VERBS["trace"], {}))
    assert found == {"launcher": told, "handler": [{"step": "pod-seen", "unixMs": 5}]}


def test_what_a_guest_has_used_is_told_of_one_that_has_ended_too(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run("Succeeded", connected=False)
    found = decode_json(GuestHistory, asyncio.run(node.door.usage("default", "small", "day")))
    assert found.span == "day of small"


def test_what_a_guest_of_another_node_has_used_is_not_told(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run("Running", node="node2")
    with pytest.raises(DoorError) as refused:
        asyncio.run(node.door.usage("default", "small", "day"))
    assert refused.value.status == 404


def test_a_guest_is_reached_over_vsock_by_the_number_that_its_vmi_has(node: Node) -> None:
    def refusal() -> tuple[int, str]:
        with pytest.raises(DoorError) as refused:
            node.door.check_vsock("default", "small")
        return refused.value.status, refused.value.message

    assert refusal()[0] == 404
    node.run("Running")
    assert refusal() == (400, "VM doesn't have VSOCK enabled")
    assert node.vmis.vmi is not None
    node.vmis.vmi.spec.domain.devices.autoattach_vsock = True
    assert refusal() == (500, "VSOCK CID is nil")
    node.vmis.vmi.status.vsock_cid = 77
    assert node.door.check_vsock("default", "small") == 77
