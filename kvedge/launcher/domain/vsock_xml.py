"""`<vsock>`: by which programs of the host reach those of the guest, without a network.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.vmi import VirtualMachineInstance


def add_vsock(devices: Element, vmi: VirtualMachineInstance, platform: Platform) -> None:
    """The guest's, by the number that the controller has given it.

    Raises:
        ConversionError: when it has given none.
    """
    if not vmi.spec.domain.devices.autoattach_vsock:
        return
    if vmi.status.vsock_cid is None:
        field = "spec.domain.devices.autoattachVSOCK"
        raise ConversionError(field, "the VMI has no status.VSOCKCID", "restart the VM to get one")
    # There is no transitional model of it that QEMU would start.
    element = add(devices, "vsock", model="virtio-non-transitional")
    add(element, "cid", auto="no", address=vmi.status.vsock_cid)
    if platform.iommu:
        add(element, "driver", iommu=platform.iommu)
