"""Which devices of the node each GPU and each other host device of a VMI is, by what device plugins gave its Pod.

Called by `host_devices`. Pure. The variables are those of KubeVirt's device plugins. Each entry of a VMI gets one
device of its resource; of USB it gets all that the resource's entry in the KubeVirt object puts together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kvedge.launcher.domain.context import PassedDevice
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.resources.host_devices.passed_devices import VARIABLES, addresses_variable
from kvedge.resources.types.devices import Gpu, HostDevice
from kvedge.resources.types.vmi import VirtualMachineInstance


class WantedDevice(Struct, frozen=True):
    """An entry of a VMI: its key in the context, its path, and its resource or the driver of its claim."""

    key: str
    field: str
    resource: str
    driver: str = ""

    @property
    def giver(self) -> str:
        """What has given it to the Pod, in words."""
        return f"the DRA driver {self.driver}" if self.driver else f"the device plugin of {self.resource[:80]}"


def wanted_devices(vmi: VirtualMachineInstance) -> list[WantedDevice]:
    """Those of device plugins: GPUs first, in the VMI's order."""
    devices = vmi.spec.domain.devices
    return [*_find_wanted("gpus", devices.gpus), *_find_wanted("hostDevices", devices.host_devices)]


def _find_wanted(kind: str, devices: Sequence[Gpu | HostDevice]) -> Iterator[WantedDevice]:
    for index, device in enumerate(devices):
        if not device.is_claimed:
            field = f"spec.domain.devices.{kind}[{index}].deviceName"
            yield WantedDevice(f"{kind}/{device.name}", field, device.device_name)


def pair_devices(wanted: Sequence[WantedDevice], given: Mapping[str, str]) -> dict[str, tuple[PassedDevice, ...]]:
    """The devices of each entry, by its key; `given` are the variables of the launcher's container.

    Raises:
        BadRequest: when the Pod has too few.
    """
    counts = Counter(device.resource for device in wanted)
    pools = {resource: list(_addresses(resource, given)) for resource in counts}
    sizes = {name: _bundle_size(pools[name], count) for name, count in counts.items()}
    paired: dict[str, tuple[PassedDevice, ...]] = {}
    taken: set[PassedDevice] = set()
    for device in wanted:
        left = [each for each in pools[device.resource] if each not in taken]
        found = tuple(left[: sizes[device.resource]])
        if not found:
            raise BadRequest(
                device.field,
                f"the Pod has too few devices of {device.resource[:80]} for it: {len(pools[device.resource])} for"
                f" {counts[device.resource]}",
                "see that the node's device plugin offers the resource, then restart the VM",
            )
        taken |= set(found)
        paired[device.key] = found
    return paired


def _bundle_size(pool: Sequence[PassedDevice], count: int) -> int:
    """USB devices that go together are given together; of a PCI card's functions each is an entry's of its own."""
    if pool and all(each.kind == "usb" for each in pool) and len(pool) % count == 0:
        return len(pool) // count
    return 1


def _addresses(resource: str, given: Mapping[str, str]) -> Iterator[PassedDevice]:
    for kind in VARIABLES:
        text = given.get(addresses_variable(kind, resource), "")
        for address in dict.fromkeys(part for each in text.split(",") if (part := each.strip())):
            yield PassedDevice(kind=kind, address=address)
