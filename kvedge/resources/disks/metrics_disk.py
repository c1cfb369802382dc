"""The disk and the serial port by which a guest reads metrics of its host, as KubeVirt and vhostmd have them.

Called by the controller, which reckons the disk's memory, and by the launcher. Pure constants and questions of a VMI.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kvedge.resources.names import PRIVATE_DIRECTORY

if TYPE_CHECKING:
    from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
    from kvedge.resources.types.volumes import Volume

# With this gate VMs may have either.
GATE: Final = "DownwardMetrics"
# The image in the launcher Pod. There is one, whatever its volume is called: a launcher that is started again finds it.
METRICS_IMAGE: Final = f"{PRIVATE_DIRECTORY}/downwardapi-disks/vhostmd0"
# The port's name in the guest, which vm-dump-metrics opens.
METRICS_PORT: Final = "org.github.vhostmd.1"
# In the environment of the launcher's container: the node that the metrics tell.
NODE_VARIABLE: Final = "NODE_NAME"


def has_metrics_disk(volumes: Iterable[Volume]) -> bool:
    """Whether one of the volumes is the disk."""
    return any(volume.downward_metrics is not None for volume in volumes)


def reads_metrics(spec: VirtualMachineInstanceSpec) -> bool:
    """Whether the guest reads metrics in either way."""
    return spec.domain.devices.downward_metrics is not None or has_metrics_disk(spec.volumes)
