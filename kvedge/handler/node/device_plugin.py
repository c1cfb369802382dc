"""A device plugin: what the handler tells the kubelet, or the agent of one box, of one resource.

Made and served by `device_plugins`. Looks at device nodes; talks in gRPC only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvedge.handler.node.device_nodes import make_launcher_node
from kvedge.handler.node.plugin_service import PluginService
from kvedge.resources.names import DEVICE_KVM, DEVICE_SEV, DEVICE_TUN, DEVICE_VHOST_NET, DEVICE_VHOST_VSOCK
from kvedge.rpc import deviceplugin_pb2

# The device is shared by all VMs; the number only bounds how many a node takes (KubeVirt: 1000).
DEVICES_PER_NODE: Final = 1000
_SEV: Final = "/dev/sev"
_VSOCK: Final = "/dev/vhost-vsock"


class SharedDevice(Struct, frozen=True):
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
    if emulation:
        del paths[DEVICE_KVM]
    elif os.path.exists(_SEV):
        # A host whose CPU cannot encrypt has nothing to tell of it.
        paths[DEVICE_SEV] = _SEV
    if os.path.exists(_VSOCK):
        paths[DEVICE_VHOST_VSOCK] = _VSOCK
    return [SharedDevice(resource, path, nodes) for resource, path in paths.items()]


class DevicePlugin(PluginService[tuple[bool, int]]):
    """One shared device's service; its state is whether the device is there, and how many Pods may have it."""

    def __init__(self, device: SharedDevice) -> None:
        super().__init__(device.resource, device.socket_name, (os.path.exists(device.path), DEVICES_PER_NODE))
        self.device = device

    def refresh(self) -> None:
        """Look whether the device is there, and tell the kubelet when that changed."""
        self.change((os.path.exists(self.device.path), self.state[1]))

    def offer(self, count: int) -> None:
        """Tell the kubelet that so many VMs may have it."""
        self.change((self.state[0], count))

    def render(self, state: tuple[bool, int]) -> Iterable[Any]:
        """As many as there may be Pods."""
        healthy, count = state
        kind = self.resource.rpartition("/")[2]
        health = "Healthy" if healthy else "Unhealthy"
        return [deviceplugin_pb2.Device(ID=f"{kind}{number}", health=health) for number in range(count)]

    def give(self, ids: Iterable[str]) -> Any:
        """The same device node for all Pods."""
        device = self.device
        host_path = device.path if device.nodes is None else make_launcher_node(device.nodes, device.path)
        node = deviceplugin_pb2.DeviceSpec(container_path=device.path, host_path=host_path, permissions="mrw")
        return deviceplugin_pb2.ContainerAllocateResponse(devices=[node])
