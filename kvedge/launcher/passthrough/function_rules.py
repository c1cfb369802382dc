"""Whether a function of a card can be a guest's as it is on this node now, and what to do where it cannot.

Called by `functions` before libvirt is asked, whose words name neither the interface nor the device plugin. Pure.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.launcher.launcher_errors import DeviceUnusable

VFIO_DRIVER: Final = "vfio-pci"


class FunctionFacts(Struct, frozen=True, kw_only=True):
    """What the launcher finds of a PCI function: `group` is its IOMMU group, `has_node` that the Pod has the group's
    device, `is_usable` that this user may open it, and `has_vfio` that VFIO's own device is there."""

    is_there: bool = True
    driver: str = ""
    group: str = ""
    has_node: bool = False
    is_usable: bool = False
    has_vfio: bool = False


def check_function(field: str, giver: str, address: str, facts: FunctionFacts) -> None:
    """Raises DeviceUnusable for a function that libvirt would refuse, at a path in the VMI.

    `giver` has given it to the Pod, such as "the device plugin of example.com/nic".
    """
    trouble = _trouble(giver, facts)
    if trouble is not None:
        what, remedy = trouble
        raise DeviceUnusable(field, f"function {address} {what}", remedy)


def _trouble(giver: str, facts: FunctionFacts) -> tuple[str, str] | None:
    if not facts.is_there:
        return "is not on this node", f"see that its card is there, and that {giver} knows it"
    if not facts.group:
        return (
            "is in no IOMMU group",
            "turn the IOMMU on: in the firmware, and for Intel with intel_iommu=on on the kernel's command line",
        )
    if facts.driver != VFIO_DRIVER:
        has = f"has the driver {facts.driver}" if facts.driver else "has no driver"
        return has, f"bind it to {VFIO_DRIVER}, as the SR-IOV operator does with deviceType vfio-pci"
    if not facts.has_node or not facts.has_vfio:
        lacks = f"/dev/vfio/{facts.group}" if not facts.has_node else "/dev/vfio/vfio"
        return (
            f"cannot be used in this Pod, which lacks {lacks}",
            f"{giver} gives it to a Pod for functions that have that driver when it starts: restart it on this node,"
            " then restart the VM",
        )
    if not facts.is_usable:
        return (
            f"cannot be used in this Pod: /dev/vfio/{facts.group} may not be opened",
            "see that the node's handler runs, which gives it to the launcher's user",
        )
    return None
