"""A device plugin: what the handler tells the kubelet, or the agent of one box, of one resource.

Made and served by `device_plugins`. Looks at device nodes; talks in gRPC only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kvedge.handler.node.device_nodes import make_launcher_node
from kvedge.resources.names import DEVICE_KVM, DEVICE_TUN, DEVICE_VHOST_NET
from kvedge.rpc import deviceplugin_pb2, deviceplugin_pb2_grpc

# The device is shared by all VMs; the number only bounds how many a node takes (KubeVirt: 1000).
DEVICES_PER_NODE: Final = 1000
# The end of a stream is told at once; this is for one that is missed.
_CHECK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SharedDevice:
    """One device node that any number of Pods may get."""

    resource: str
    path: str
    # Where the handler makes nodes that are the launcher's; without it, Pods get what the host's are.
    nodes: Path | None = None

    @property
    def socket_name(self) -> str:
        """The plugin's socket, in the kubelet's directory."""
        return f"kvedge-{self.resource.rpartition('/')[2]}.sock"


def list_shared_devices(nodes: Path | None = None, *, emulation: bool) -> list[SharedDevice]:
    """The devices this node offers, KVM not where guests are emulated; `nodes` is where the handler makes nodes."""
    paths = {DEVICE_KVM: "/dev/kvm", DEVICE_TUN: "/dev/net/tun", DEVICE_VHOST_NET: "/dev/vhost-net"}
    offered = (DEVICE_TUN, DEVICE_VHOST_NET) if emulation else tuple(paths)
    return [SharedDevice(resource, paths[resource], nodes) for resource in offered]


class DevicePlugin(deviceplugin_pb2_grpc.DevicePluginServicer):
    """One resource's service."""

    def __init__(self, device: SharedDevice) -> None:
        self.device = device
        self._changed = threading.Condition()
        self._healthy = os.path.exists(device.path)
        self._count = DEVICES_PER_NODE
        self._stopped = False
        self._streams = 0

    @property
    def is_watched(self) -> bool:
        """Whether somebody reads the list of devices: a kubelet that does not has none of them."""
        with self._changed:
            return self._streams > 0

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
        context.add_callback(self._wake)
        with self._changed:
            self._streams += 1
        try:
            yield from self._lists(context)
        finally:
            with self._changed:
                self._streams -= 1

    def _lists(self, context: Any) -> Iterator[Any]:
        told: tuple[bool, int] | None = None
        while True:
            with self._changed:
                if not self._stopped and context.is_active() and (self._healthy, self._count) == told:
                    self._changed.wait(_CHECK_SECONDS)
                if self._stopped or not context.is_active():
                    return
                if (self._healthy, self._count) == told:
                    continue
                told = self._healthy, self._count
            yield self._devices(*told)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _devices(self, healthy: bool, count: int) -> Any:
        kind = self.device.resource.rpartition("/")[2]
        health = "Healthy" if healthy else "Unhealthy"
        devices = [deviceplugin_pb2.Device(ID=f"{kind}{number}", health=health) for number in range(count)]
        return deviceplugin_pb2.ListAndWatchResponse(devices=devices)

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The same device node for all Pods."""
        device = self.device
        host_path = device.path if device.nodes is None else make_launcher_node(device.nodes, device.path)
        node = deviceplugin_pb2.DeviceSpec(container_path=device.path, host_path=host_path, permissions="mrw")
        answer = deviceplugin_pb2.ContainerAllocateResponse(devices=[node])
        return deviceplugin_pb2.AllocateResponse(container_responses=[answer for _ in request.container_requests])

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Nothing to prepare."""
        return deviceplugin_pb2.PreStartContainerResponse()

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        """No preference."""
        return deviceplugin_pb2.PreferredAllocationResponse()
