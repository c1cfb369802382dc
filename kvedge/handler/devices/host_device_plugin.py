"""The device plugin of one resource whose devices go to one guest each.

Made by `node_devices`, served beside the plugins of shared devices. Makes device nodes for launchers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kvedge.handler.devices.device_facts import Offer
from kvedge.handler.node.device_nodes import make_launcher_node
from kvedge.handler.node.plugin_service import PluginService
from kvedge.resources.host_devices.passed_devices import addresses_variable
from kvedge.rpc import deviceplugin_pb2

# A kubelet reaches a socket by its whole path, of 107 bytes at most.
_LONGEST_NAME: Final = 40

# By the offer's id.
Offers = Mapping[str, Offer]


class HostDevicePlugin(PluginService[Offers]):
    """Its state is what is offered now."""

    def __init__(self, resource: str, root: Path, nodes: Path) -> None:
        """`root` is above the host's /dev, `nodes` where the handler makes nodes that are the launcher's."""
        super().__init__(resource, socket_name(resource), {})
        self._root = root
        self._nodes = nodes

    def refresh(self) -> None:
        """The devices have been looked at already."""

    def render(self, state: Offers) -> Iterable[Any]:
        """Each device; those that cannot be given are not healthy."""
        return [
            deviceplugin_pb2.Device(ID=offer.id, health="Unhealthy" if offer.trouble else "Healthy")
            for offer in state.values()
        ]

    def give(self, ids: Iterable[str]) -> Any:
        """Their nodes, and the variable by which the launcher knows which they are.

        Raises:
            LookupError: when one cannot be had any more.
        """
        offers = [self._find(each) for each in ids]
        answer = deviceplugin_pb2.ContainerAllocateResponse()
        for path in dict.fromkeys(path for offer in offers for path in offer.nodes):
            host_path = make_launcher_node(self._nodes, str(self._root / path.lstrip("/")))
            answer.devices.add(container_path=path, host_path=host_path, permissions="mrw")
        if offers:
            addresses = [address for offer in offers for address in offer.addresses]
            answer.envs[addresses_variable(offers[0].kind, self.resource)] = ",".join(addresses)
        return answer

    def _find(self, device: str) -> Offer:
        offer = self.state.get(device)
        if offer is None:
            raise LookupError(f"{device} is no longer on this node")
        if offer.trouble:
            raise LookupError(f"{device} {offer.trouble}")
        return offer


def socket_name(resource: str) -> str:
    """The plugin's socket; a long name is cut, and stays one of its own."""
    name = resource.replace("/", "-")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(resource.encode()).hexdigest()[:8]}"
    # Names of the node's own plugins have no such ending.
    return f"kvedge-{name}-devices.sock"
