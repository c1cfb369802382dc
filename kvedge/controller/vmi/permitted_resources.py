"""Whether a VMI's devices and volumes are still permitted when its Pod is made: the KubeVirt object may have changed.

Called before a launcher's Pod is made. Pure.
"""

from __future__ import annotations

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.resources.host_devices.permitted_devices import find_not_permitted
from kvedge.resources.shares.container_paths import GATE_IS_OFF, has_container_paths
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import reserved_disks


class NotPermitted(Exception):
    """The KubeVirt object does not permit a device or a volume. The text has field and remedy."""


def check_permitted(vmi: VirtualMachineInstance, config: ClusterConfig) -> None:
    """Raises NotPermitted for the first device or kind of volume that is not."""
    if not config.container_paths and has_container_paths(vmi.spec):
        raise NotPermitted(f"spec.volumes: {GATE_IS_OFF}; the VM starts once it is on")
    if not config.reserves_luns and (names := reserved_disks(vmi.spec)):
        text = "persistent reservation is not enabled in kubevirt config"
        raise NotPermitted(f"spec.domain.devices.disks: {text}, of LUN {names[0]}; the VM starts once it is")
    for field, index, message in find_not_permitted(vmi.spec.domain.devices, config.permitted_devices):
        raise NotPermitted(
            f"spec.domain.devices.{field}[{index}].deviceName: {message}; the VM starts once it is there"
        )
