"""Device plugins of the handler: `devices.kubevirt.io/{kvm,tun,vhost-net}` for the kubelet, or the agent of one box.

Called by the handler role. Serves one unix socket per resource beside the kubelet's and registers again whenever the
kubelet has made a new socket of its own (it forgets its plugins when it restarts).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from kvedge.resources.names import DEVICE_KVM, DEVICE_TUN, DEVICE_VHOST_NET
from kvedge.rpc import deviceplugin_pb2, deviceplugin_pb2_grpc

log = logging.getLogger(__name__)

VERSION: Final = "v1beta1"
KUBELET_SOCKET: Final = "kubelet.sock"
# The device is shared by all VMs; the number only bounds how many a node takes (KubeVirt: 1000).
DEVICES_PER_NODE: Final = 1000
_CHECK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SharedDevice:
    """One device node that any number of Pods may get."""

    resource: str
    path: str

    @property
    def socket_name(self) -> str:
        """The plugin's socket, in the kubelet's directory."""
        return f"kvedge-{self.resource.rpartition('/')[2]}.sock"


def shared_devices(*, emulation: bool) -> list[SharedDevice]:
    """The devices this node offers; KVM is not offered where guests are emulated."""
    devices = [SharedDevice(DEVICE_TUN, "/dev/net/tun"), SharedDevice(DEVICE_VHOST_NET, "/dev/vhost-net")]
    return devices if emulation else [SharedDevice(DEVICE_KVM, "/dev/kvm"), *devices]


class DevicePlugin(deviceplugin_pb2_grpc.DevicePluginServicer):
    """One resource's service."""

    def __init__(self, device: SharedDevice) -> None:
        self.device = device
        self._changed = threading.Condition()
        self._healthy = os.path.exists(device.path)
        self._count = DEVICES_PER_NODE
        self._stopped = False

    def refresh(self) -> None:
        """Look whether the device is there, and tell the kubelet when that changed."""
        healthy = os.path.exists(self.device.path)
        with self._changed:
            if healthy != self._healthy:
                self._healthy = healthy
                self._changed.notify_all()

    def offer(self, count: int) -> None:
        """Tell the kubelet that so many VMs may have it."""
        with self._changed:
            if count != self._count:
                self._count = count
                self._changed.notify_all()

    def stop(self) -> None:
        """End the streams."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - the interface's name
        """No options."""
        return deviceplugin_pb2.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """All devices now, and again after each change."""
        told: tuple[bool, int] | None = None
        while True:
            with self._changed:
                if not self._stopped and (self._healthy, self._count) == told:
                    self._changed.wait(_CHECK_SECONDS)
                if self._stopped or not context.is_active():
                    return
                if (self._healthy, self._count) == told:
                    continue
                told = self._healthy, self._count
            yield self._devices(*told)

    def _devices(self, healthy: bool, count: int) -> Any:
        kind = self.device.resource.rpartition("/")[2]
        health = "Healthy" if healthy else "Unhealthy"
        devices = [deviceplugin_pb2.Device(ID=f"{kind}{number}", health=health) for number in range(count)]
        return deviceplugin_pb2.ListAndWatchResponse(devices=devices)

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The same device node for everyone who asks."""
        node = deviceplugin_pb2.DeviceSpec(
            container_path=self.device.path, host_path=self.device.path, permissions="mrw"
        )
        answer = deviceplugin_pb2.ContainerAllocateResponse(devices=[node])
        return deviceplugin_pb2.AllocateResponse(container_responses=[answer for _ in request.container_requests])

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Nothing to prepare."""
        return deviceplugin_pb2.PreStartContainerResponse()

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        """No preference."""
        return deviceplugin_pb2.PreferredAllocationResponse()


class DevicePlugins:
    """All plugins of this node: a service of the handler role."""

    name = "device plugins"

    def __init__(self, directory: Path, devices: list[SharedDevice]) -> None:
        self._directory = directory
        self._plugins = [DevicePlugin(device) for device in devices]
        self._servers: list[grpc.Server] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_registered, name="device-plugins", daemon=True)
        self._registered: object = None

    def start(self) -> None:
        """Serve all plugins and begin to register them."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for plugin in self._plugins:
            self._servers.append(self._serve(plugin))
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; the kubelet then counts the devices as gone, running Pods keep theirs."""
        self._stop.set()
        for plugin in self._plugins:
            plugin.stop()
        for server in self._servers:
            server.stop(grace=None).wait(timeout=2)
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        for plugin in self._plugins:
            (self._directory / plugin.device.socket_name).unlink(missing_ok=True)

    def offer(self, count: int) -> None:
        """Let so many VMs have each device at most."""
        for plugin in self._plugins:
            plugin.offer(count)

    def failure(self) -> str | None:
        """Registration is retried for ever, so nothing here is final."""
        return None

    def _serve(self, plugin: DevicePlugin) -> grpc.Server:
        # One thread for the stream that never ends, one for Allocate.
        server = grpc.server(futures.ThreadPoolExecutor(2, thread_name_prefix=plugin.device.socket_name))
        deviceplugin_pb2_grpc.add_DevicePluginServicer_to_server(plugin, server)  # type: ignore[no-untyped-call]
        path = self._directory / plugin.device.socket_name
        path.unlink(missing_ok=True)
        with _inside(self._directory) as reachable:
            server.add_insecure_port(f"unix:{reachable}/{plugin.device.socket_name}")
            server.start()
        return server

    def _keep_registered(self) -> None:
        while True:
            for plugin in self._plugins:
                plugin.refresh()
            try:
                self._register_when_new()
            except grpc.RpcError as error:
                log.warning("kubelet refused the device plugins", extra={"facts": {"error": str(error)}})
            if self._stop.wait(0.05 if self._registered is None else _CHECK_SECONDS):
                return

    def _register_when_new(self) -> None:
        try:
            found = os.stat(self._directory / KUBELET_SOCKET)
        except FileNotFoundError:
            self._registered = None
            return
        identity = (found.st_dev, found.st_ino, found.st_ctime_ns)
        if identity == self._registered:
            return
        with (
            _inside(self._directory) as reachable,
            grpc.insecure_channel(f"unix:{reachable}/{KUBELET_SOCKET}") as channel,
        ):
            stub: Any = deviceplugin_pb2_grpc.RegistrationStub(channel)  # type: ignore[no-untyped-call]
            for plugin in self._plugins:
                request = deviceplugin_pb2.RegisterRequest(
                    version=VERSION, endpoint=plugin.device.socket_name, resource_name=plugin.device.resource
                )
                stub.Register(request, timeout=5)
        self._registered = identity


class _inside:  # noqa: N801 - reads as a function where it is used
    """A short name for a directory: unix socket paths end at 108 bytes, data directories do not."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
