"""`<rng>`: entropy for the guest.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.devices import Rng


def add_rng(devices: Element, rng: Rng | None, platform: Platform) -> None:
    """virtio-rng, fed by the host's /dev/urandom, which never blocks."""
    if rng is None:
        return
    element = add(devices, "rng", model=platform.virtio)
    add(element, "backend", "/dev/urandom", model="random")
    if platform.iommu:
        add(element, "driver", iommu=platform.iommu)
