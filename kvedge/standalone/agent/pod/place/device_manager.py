"""The kubelet's side of device plugins (v1beta1): which plugin offers how many devices, and which a container gets.

Started by the node agent; asked by the Pod loop and the node loop. Serves
`<kubelet-root>/device-plugins/kubelet.sock` and talks to the plugins' sockets beside it. Root only may connect, as
the directory is root's.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any, Final

import grpc
from msgspec import Struct, field

from kvedge.resources.values.quantities import Quantity
from kvedge.rpc import deviceplugin_pb2, deviceplugin_pb2_grpc
from kvedge.runtime.background import passing_thread
from kvedge.standalone.agent.container.container_spec import DeviceSpec, MountSpec

log = logging.getLogger(__name__)

VERSION: Final = "v1beta1"
SOCKET: Final = "kubelet.sock"
_CALL_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 10.0
# Plugins register; each then has one stream of its own.
_WORKERS: Final = 4


class DeviceError(Exception):
    """A device cannot be had; the text is for the Pod's event."""


class _Plugin(Struct):
    """One resource's plugin: its devices by id, and whether each is healthy."""

    resource: str
    channel: grpc.Channel
    devices: dict[str, bool] = field(default_factory=dict)
    alive: bool = True


class Allocation(Struct, frozen=True):
    """What a container gets from its devices."""

    ids: Mapping[str, list[str]]
    devices: list[DeviceSpec]
    mounts: list[MountSpec]
    env: dict[str, str]


class DeviceManager:
    """All device plugins of the node."""

    def __init__(self, directory: Path, on_change: Callable[[], None]) -> None:
        self._directory = directory
        self._on_change = on_change
        self._lock = threading.Lock()
        self._plugins: dict[str, _Plugin] = {}
        # By Pod UID and resource.
        self._in_use: dict[tuple[str, str], list[str]] = {}
        self._server: grpc.Server | None = None
        self._reachable = -1
        self._stopping = False

    def start(self) -> None:
        """Serve the socket; plugins notice it and register.

        Raises:
            RuntimeError: when it cannot be served.
        """
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        (self._directory / SOCKET).unlink(missing_ok=True)
        # Unix socket paths end at 108 bytes, data directories do not: sockets are reached through this.
        self._reachable = os.open(self._directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        pool = futures.ThreadPoolExecutor(_WORKERS, thread_name_prefix="device-registration")
        server = grpc.server(pool)
        deviceplugin_pb2_grpc.add_RegistrationServicer_to_server(_Registration(self._register), server)  # type: ignore[no-untyped-call]
        server.add_insecure_port(self._address(SOCKET))
        server.start()
        self._server = server

    def stop(self) -> None:
        """Stop serving; devices that containers have stay theirs."""
        self._stopping = True
        if self._server is not None:
            self._server.stop(grace=0).wait()
        with self._lock:
            plugins = list(self._plugins.values())
        for plugin in plugins:
            plugin.channel.close()
        if self._reachable >= 0:
            os.close(self._reachable)
            self._reachable = -1
        (self._directory / SOCKET).unlink(missing_ok=True)

    def capacity(self) -> dict[str, int]:
        """How many devices of each resource there are."""
        with self._lock:
            return {plugin.resource: len(plugin.devices) for plugin in self._plugins.values()}

    def allocatable(self) -> dict[str, int]:
        """How many of them work."""
        with self._lock:
            return {plugin.resource: sum(plugin.devices.values()) for plugin in self._plugins.values()}

    def adopt(self, uid: str, ids: Mapping[str, list[str]]) -> None:
        """A Pod of an earlier agent has these devices."""
        with self._lock:
            for resource, devices in ids.items():
                self._in_use[uid, resource] = list(devices)

    def release(self, uid: str) -> None:
        """The Pod is gone: its devices are free."""
        with self._lock:
            for key in [key for key in self._in_use if key[0] == uid]:
                del self._in_use[key]

    def reserve(self, uid: str, wanted: Mapping[str, int]) -> dict[str, list[str]]:
        """Ids of devices for a Pod, which they then belong to; the same again for a Pod that has them.

        Raises:
            DeviceError: when a resource has too few free healthy devices.
        """
        with self._lock:
            return {resource: self._reserve(uid, resource, count) for resource, count in wanted.items() if count}

    def allocate(self, ids: Mapping[str, list[str]]) -> Allocation:
        """Ask the plugins what a container with these devices gets.

        Raises:
            DeviceError: when a plugin is gone or refuses.
        """
        made = Allocation(dict(ids), [], [], {})
        for resource, devices in ids.items():
            _collect(self._ask(resource, devices), made)
        return made

    def failure(self) -> str | None:
        """Never fails by itself: a plugin that is gone shows as capacity 0."""
        return None

    def _reserve(self, uid: str, resource: str, count: int) -> list[str]:
        own = self._in_use.get((uid, resource), [])
        if len(own) >= count:
            return own[:count]
        plugin = self._plugins.get(resource)
        if plugin is None or not plugin.alive:
            raise DeviceError(f"Allocate failed due to no plugin for {resource}, which is unexpected")
        taken = {device for (_, name), devices in self._in_use.items() if name == resource for device in devices}
        free = [device for device, healthy in plugin.devices.items() if healthy and device not in taken]
        missing = count - len(own)
        if len(free) < missing:
            raise DeviceError(
                f"Allocate failed due to requested number of devices unavailable for {resource}. "
                f"Requested: {count}, Available: {len(free)}, which is unexpected"
            )
        self._in_use[uid, resource] = own + free[:missing]
        return self._in_use[uid, resource]

    def _ask(self, resource: str, devices: list[str]) -> Any:
        with self._lock:
            plugin = self._plugins.get(resource)
        if plugin is None:
            raise DeviceError(f"Allocate failed due to no plugin for {resource}, which is unexpected")
        request = deviceplugin_pb2.AllocateRequest(
            container_requests=[deviceplugin_pb2.ContainerAllocateRequest(devices_ids=devices)]
        )
        stub = deviceplugin_pb2_grpc.DevicePluginStub(plugin.channel)  # type: ignore[no-untyped-call]
        try:
            return stub.Allocate(request, timeout=_CALL_SECONDS).container_responses[0]
        except grpc.RpcError as error:
            raise DeviceError(f"Allocate failed due to rpc error for {resource}: {error}") from error

    def _register(self, resource: str, endpoint: str) -> None:
        if "/" in endpoint or endpoint in ("", ".", "..", SOCKET):
            raise DeviceError(f"{endpoint!r} is no name of a plugin's socket")
        channel = grpc.insecure_channel(self._address(endpoint))
        plugin = _Plugin(resource, channel)
        with self._lock:
            before = self._plugins.get(resource)
            self._plugins[resource] = plugin
        if before is not None:
            before.alive = False
            before.channel.close()
        passing_thread(f"devices-{endpoint}", self._follow, plugin)

    def _address(self, name: str) -> str:
        return f"unix:/proc/self/fd/{self._reachable}/{name}"

    def _follow(self, plugin: _Plugin) -> None:
        """Read a plugin's list until its stream ends; then it has no healthy device any more."""
        stub = deviceplugin_pb2_grpc.DevicePluginStub(plugin.channel)  # type: ignore[no-untyped-call]
        try:
            grpc.channel_ready_future(plugin.channel).result(timeout=_CONNECT_SECONDS)
            for answer in stub.ListAndWatch(deviceplugin_pb2.Empty()):
                with self._lock:
                    plugin.devices = {device.ID: device.health == "Healthy" for device in answer.devices}
                self._on_change()
        except (grpc.RpcError, grpc.FutureTimeoutError, ValueError) as error:
            # ValueError: the channel was closed by a newer registration or by stop.
            if not self._stopping and plugin.alive:
                facts = {"resource": plugin.resource, "error": type(error).__name__}
                log.info("device plugin is gone", extra={"facts": facts})
        finally:
            # Also after what nobody expected: devices that nobody follows are not offered.
            with self._lock:
                plugin.devices = dict.fromkeys(plugin.devices, False)
                plugin.alive = False
            if not self._stopping:
                self._on_change()


class _Registration(deviceplugin_pb2_grpc.RegistrationServicer):
    """The service that plugins call."""

    def __init__(self, register: Callable[[str, str], None]) -> None:
        self._register = register

    def Register(self, request: Any, context: Any) -> Any:  # noqa: N802 - the interface's name
        """A plugin offers a resource at its endpoint."""
        if request.version != VERSION:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"version {request.version} is not {VERSION}")
        try:
            self._register(request.resource_name, request.endpoint)
        except DeviceError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return deviceplugin_pb2.Empty()


def _collect(answer: Any, made: Allocation) -> None:
    made.devices.extend({"host": item.host_path, "path": item.container_path} for item in answer.devices)
    made.mounts.extend(
        {
            "source": item.host_path,
            "sub_path": "",
            "target": item.container_path,
            "read_only": item.read_only,
            "follow_host": False,
        }
        for item in answer.mounts
    )
    made.env.update(answer.envs)


def device_requests(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """The extended resources among a container's limits, and how many of each."""
    return {
        name: int(count)
        for name, count in resources.items()
        if "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
    }
