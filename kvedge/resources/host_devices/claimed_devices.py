"""The devices of a VMI that claims of the cluster (DRA) have, in place of device plugins.

Called by admission, by the controller, which hands the claims to the launcher's Pod, by the handler, and by the
launcher, which finds its devices by them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from kvedge.resources.types.core import ContainerClaim
from kvedge.resources.types.devices import Gpu, HostDevice
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from kvedge.resources.types.volumes import ClaimRequest

# The API group of claims: an API server without it drops what it is told of them.
CLAIM_GROUP: Final = "resource.k8s.io"


class ClaimedDevice(Struct, frozen=True):
    """A GPU, another host device or a network of a VMI: its list and place there, its name, the claim and the request
    of that claim."""

    kind: str
    index: int
    name: str
    claim: str
    request: str

    @property
    def key(self) -> str:
        """By which the launcher knows it."""
        return f"{self.kind}/{self.name}"

    @property
    def field(self) -> str:
        """Its path in the VMI."""
        if self.kind == "networks":
            return f"spec.networks[{self.index}].resourceClaim"
        return f"spec.domain.devices.{self.kind}[{self.index}]"


def claimed_devices(spec: VirtualMachineInstanceSpec) -> list[ClaimedDevice]:
    """GPUs, other devices, networks; in the VMI's order."""
    devices = spec.domain.devices
    return [
        *_find_claimed("gpus", devices.gpus),
        *_find_claimed("hostDevices", devices.host_devices),
        *(
            ClaimedDevice("networks", index, network.name, request.claim_name, request.request_name)
            for index, network in enumerate(spec.networks)
            if (request := network.resource_claim) is not None
        ),
    ]


def _find_claimed(kind: str, devices: Sequence[Gpu | HostDevice]) -> Iterator[ClaimedDevice]:
    for index, device in enumerate(devices):
        if device.is_claimed:
            yield ClaimedDevice(kind, index, device.name, device.claim_name, device.request_name)


def container_claims(vmi: VirtualMachineInstance) -> list[ContainerClaim]:
    """What the launcher's container uses of its Pod's claims."""
    return [ContainerClaim(name=device.claim, request=device.request) for device in claimed_devices(vmi.spec)]


def claimed_networks(spec: VirtualMachineInstanceSpec) -> dict[str, ClaimRequest]:
    """The networks that are devices of claims, by name."""
    return {item.name: item.resource_claim for item in spec.networks if item.resource_claim is not None}
