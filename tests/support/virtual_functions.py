"""Virtual functions of a card in a node that is a directory, for tests of what a launcher makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ADDRESS: Final = "0000:65:02.0"


def tell(root: Path, text: str) -> None:
    """What the Pod's annotation says of its networks."""
    (root / "etc/podinfo").mkdir(parents=True, exist_ok=True)
    (root / "etc/podinfo/network-info").write_text(text)


def a_function(root: Path) -> None:
    """One bound to VFIO, whose group the Pod has."""
    device = root / "sys/bus/pci/devices" / ADDRESS
    device.mkdir(parents=True)
    (device / "driver").symlink_to("../../../../bus/pci/drivers/vfio-pci")
    (device / "iommu_group").symlink_to("../../../kernel/iommu_groups/42")
    (root / "dev/vfio").mkdir(parents=True)
    for name in ("vfio", "42"):
        (root / "dev/vfio" / name).touch()
