"""Whether a VMI's devices are still permitted when its Pod is made: the KubeVirt object may have changed since.

Called before a launcher's Pod is made. Pure.
"""

from __future__ import annotations

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.resources.host_devices.permitted_devices import find_not_permitted
from kvedge.resources.types.vmi import VirtualMachineInstance


class DeviceNotPermitted(Exception):
    """The KubeVirt object does not permit a device. The text has field and remedy."""


def check_permitted(vmi: VirtualMachineInstance, config: ClusterConfig) -> None:
    """Raises DeviceNotPermitted for the first device that is not."""
    for field, index, message in find_not_permitted(vmi.spec.domain.devices, config.permitted_devices):
        raise DeviceNotPermitted(
            f"spec.domain.devices.{field}[{index}].deviceName: {message}; the VM starts once it is there"
        )
