"""A kubelet, played: the side of device plugins only, with the habits of the real one that matter to plugins.

It empties its directory of plugins' sockets when it starts, connects back to a plugin before it answers a registration,
asks for its options, and drops the newest plugin of a resource whenever any stream of that resource ends.
"""

from __future__ import annotations

import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from kvedge.rpc import deviceplugin_pb2, deviceplugin_pb2_grpc

_CHECKPOINT = "kubelet_internal_checkpoint"


class PlayedKubelet(deviceplugin_pb2_grpc.RegistrationServicer):
    """One run of a kubelet, at a directory whose path is short."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.registrations: list[str] = []
        self.refuse = False
        self._lock = threading.Lock()
        self._devices: dict[str, dict[str, str]] = {}
        self._clients: dict[str, grpc.Channel] = {}
        self._streams: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Empty the directory, then serve."""
        for path in self.directory.iterdir():
            if path.name != _CHECKPOINT and not path.is_dir():
                path.unlink()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        deviceplugin_pb2_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.directory}/kubelet.sock")
        self._server.start()

    def stop(self) -> None:
        """As a kubelet that is killed: all its connections end."""
        assert self._server is not None
        self._server.stop(grace=None).wait()
        with self._lock:
            streams, clients = list(self._streams), list(self._clients.values())
        for stream in streams:
            stream.cancel()
        for client in clients:
            client.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def lose(self, resource: str) -> None:
        """Drop a plugin, as happens when the end of an older stream comes late."""
        with self._lock:
            channel = self._clients.pop(resource)
        channel.close()

    def healthy(self, resource: str) -> int:
        """How many devices of a resource may be given out."""
        with self._lock:
            return list(self._devices.get(resource, {}).values()).count("Healthy")

    def allocate(self, resource: str, device: str) -> Any:
        """What one container gets."""
        with self._lock:
            stub = deviceplugin_pb2_grpc.DevicePluginStub(self._clients[resource])
        wanted = deviceplugin_pb2.ContainerAllocateRequest(devices_ids=[device])
        request = deviceplugin_pb2.AllocateRequest(container_requests=[wanted])
        return stub.Allocate(request, timeout=5).container_responses[0]

    def Register(self, request: Any, context: Any) -> Any:
        if self.refuse:
            context.abort(grpc.StatusCode.UNKNOWN, "not now")
        channel = grpc.insecure_channel(f"unix:{self.directory}/{request.endpoint}")
        try:
            grpc.channel_ready_future(channel).result(timeout=2)
        except grpc.FutureTimeoutError:
            channel.close()
            context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {request.endpoint}")
        stub = deviceplugin_pb2_grpc.DevicePluginStub(channel)
        stub.GetDevicePluginOptions(deviceplugin_pb2.Empty(), timeout=2)
        with self._lock:
            self.registrations.append(request.resource_name)
            self._clients[request.resource_name] = channel
            thread = threading.Thread(target=self._follow, args=(request.resource_name, stub), daemon=True)
            self._threads.append(thread)
        thread.start()
        return deviceplugin_pb2.Empty()

    def _follow(self, resource: str, stub: Any) -> None:
        stream = stub.ListAndWatch(deviceplugin_pb2.Empty())
        with self._lock:
            self._streams.append(stream)
        try:
            for answer in stream:
                with self._lock:
                    self._devices[resource] = {device.ID: device.health for device in answer.devices}
        except (grpc.RpcError, ValueError):
            # ValueError: the channel was closed.
            pass
        with self._lock:
            self._devices[resource] = {}
            newest = self._clients.pop(resource, None)
        if newest is not None:
            newest.close()
