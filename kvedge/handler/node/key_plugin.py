"""The device plugin of keys that an Intel CPU has for guests of TDX: `devices.kubevirt.io/tdx`.

Made by the handler role where the kernel tells of such keys, served by `device_plugins`. A guest needs one for its
whole life, and no device node: KVM takes it. Reads the kernel's count of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kvedge.handler.node.device_plugin import DEVICES_PER_NODE
from kvedge.handler.node.plugin_service import PluginService
from kvedge.resources.names import DEVICE_TDX
from kvedge.rpc import deviceplugin_pb2

# Lines such as `tdx 31`.
_CAPACITY: Final = Path("/sys/fs/cgroup/misc.capacity")
_LARGEST: Final = 4096


def count_keys(capacity: Path = _CAPACITY) -> int:
    """How many guests of TDX this host can have at a time; 0 where it has none."""
    try:
        with capacity.open() as file:
            lines = file.read(_LARGEST).splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    words = [line.split() for line in lines]
    found = [int(line[1]) for line in words if len(line) == 2 and line[0] == "tdx" and line[1].isdecimal()]
    return min(sum(found), DEVICES_PER_NODE)


class KeyPlugin(PluginService[int]):
    """The keys of this host; its state is how many there are."""

    def __init__(self, capacity: Path = _CAPACITY) -> None:
        super().__init__(DEVICE_TDX, "kvedge-tdx.sock", count_keys(capacity))
        self._capacity = capacity

    def refresh(self) -> None:
        """Count them, and tell the kubelet when there are more or fewer."""
        self.change(count_keys(self._capacity))

    def render(self, state: int) -> Iterable[Any]:
        """One for each key."""
        return [deviceplugin_pb2.Device(ID=f"tdx{number}", health="Healthy") for number in range(state)]

    def give(self, ids: Iterable[str]) -> Any:
        """Nothing: the key is KVM's to take."""
        return deviceplugin_pb2.ContainerAllocateResponse()
