"""Device plugins: the handler's real ones on one side, the agent's manager on the other, over their sockets."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from kvedge.handler.node.device_plugin import SharedDevice
from kvedge.handler.node.device_plugins import DevicePlugins
from kvedge.rpc import deviceplugin_pb2, deviceplugin_pb2_grpc
from kvedge.standalone.agent.pod.place.device_manager import SOCKET, DeviceError, DeviceManager
from tests.support.waiting import wait_until

TUN = "devices.kubevirt.io/tun"
ODD = "example.com/odd"


class _World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.changes = threading.Semaphore(0)
        self.manager = DeviceManager(directory, self.changes.release)
        self.device = directory.parent / "device"
        os.mknod(self.device, 0o020600, os.makedev(1, 3))
        self.plugins: DevicePlugins | None = None

    def start_plugins(self) -> None:
        devices = [SharedDevice(TUN, "/dev/net/tun"), SharedDevice(ODD, str(self.device))]
        self.plugins = DevicePlugins(self.directory, devices)
        self.plugins.start()

    def stop_plugins(self) -> None:
        if self.plugins is not None:
            self.plugins.stop()
            self.plugins = None


@pytest.fixture(params=["short", "a-data-directory-whose-name-is-so-long-that-no-socket-fits-" + "x" * 100])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_World]:
    directory = tmp_path / request.param / "device-plugins"
    directory.mkdir(parents=True)
    made = _World(directory)
    made.manager.start()
    yield made
    made.stop_plugins()
    made.manager.stop()


def test_plugins_that_come_and_go_change_what_the_node_has(world: _World) -> None:
    assert world.manager.capacity() == {}
    world.start_plugins()
    wait_until(lambda: world.manager.allocatable() == {TUN: 1000, ODD: 1000}, "both are there")
    assert world.changes.acquire(timeout=5)

    world.stop_plugins()
    wait_until(lambda: world.manager.allocatable() == {TUN: 0, ODD: 0}, "both are gone")
    assert world.manager.capacity() == {TUN: 1000, ODD: 1000}

    world.start_plugins()
    wait_until(lambda: world.manager.allocatable() == {TUN: 1000, ODD: 1000}, "both are back")


def test_a_device_that_vanishes_is_not_given_out(world: _World) -> None:
    world.start_plugins()
    wait_until(lambda: world.manager.allocatable().get(ODD) == 1000, "it is there")
    world.device.unlink()

    wait_until(lambda: world.manager.allocatable().get(ODD) == 0, "it is gone")
    with pytest.raises(DeviceError, match="Requested: 1, Available: 0"):
        world.manager.reserve("pod", {ODD: 1})


def test_a_container_gets_the_node_that_the_plugin_names(world: _World) -> None:
    world.start_plugins()
    wait_until(lambda: world.manager.allocatable().get(TUN) == 1000, "it is there")
    ids = world.manager.reserve("pod", {TUN: 1})
    allocated = world.manager.allocate(ids)

    assert allocated.devices == [{"host": "/dev/net/tun", "path": "/dev/net/tun"}]
    assert ids == {TUN: ["tun0"]}


def test_each_pod_has_devices_of_its_own_until_it_goes(world: _World) -> None:
    world.start_plugins()
    wait_until(lambda: world.manager.allocatable().get(TUN) == 1000, "it is there")
    first, second = world.manager.reserve("a", {TUN: 600}), world.manager.reserve("b", {TUN: 400})

    assert not set(first[TUN]) & set(second[TUN])
    assert world.manager.reserve("a", {TUN: 600}) == first
    with pytest.raises(DeviceError, match="unavailable"):
        world.manager.reserve("c", {TUN: 1})
    world.manager.release("b")
    assert len(world.manager.reserve("c", {TUN: 1})[TUN]) == 1


def test_devices_of_adopted_pods_are_not_given_out_again(world: _World) -> None:
    world.manager.adopt("old", {TUN: ["tun0", "tun2"]})
    world.start_plugins()
    wait_until(lambda: world.manager.allocatable().get(TUN) == 1000, "it is there")

    assert world.manager.reserve("new", {TUN: 2}) == {TUN: ["tun1", "tun3"]}


def test_a_resource_that_nobody_offers_is_refused(world: _World) -> None:
    with pytest.raises(DeviceError, match="no plugin for example"):
        world.manager.reserve("pod", {ODD: 1})


def test_a_plugin_finds_a_manager_that_was_started_again(world: _World) -> None:
    world.start_plugins()
    wait_until(lambda: world.manager.allocatable().get(TUN) == 1000, "it is there")
    world.manager.stop()
    world.manager = DeviceManager(world.directory, world.changes.release)
    world.manager.start()

    wait_until(lambda: world.manager.allocatable().get(TUN) == 1000, "it is there again")


@pytest.mark.parametrize(
    ("version", "endpoint"), [("v1", "x.sock"), ("v1beta1", "../x.sock"), ("v1beta1", ""), ("v1beta1", SOCKET)]
)
def test_a_registration_that_makes_no_sense_is_refused(world: _World, version: str, endpoint: str) -> None:
    descriptor = os.open(world.directory, os.O_PATH | os.O_DIRECTORY)
    try:
        with grpc.insecure_channel(f"unix:/proc/self/fd/{descriptor}/{SOCKET}") as channel:
            stub = deviceplugin_pb2_grpc.RegistrationStub(channel)
            request = deviceplugin_pb2.RegisterRequest(version=version, endpoint=endpoint, resource_name=ODD)
            with pytest.raises(grpc.RpcError) as refused:
                stub.Register(request, timeout=5)
    finally:
        os.close(descriptor)

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert world.manager.capacity() == {}
