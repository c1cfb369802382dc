"""`<memballoon>`: how the node learns of the guest's memory, and gets unused pages back.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add, switch
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus, is_realtime
from kvedge.resources.types.domain import DomainSpec


def add_memballoon(devices: Element, spec: DomainSpec, platform: Platform, context: DomainContext) -> None:
    """A virtio balloon; `none` is written when it is refused, as libvirt would add one otherwise."""
    if spec.devices.autoattach_mem_balloon is False:
        add(devices, "memballoon", model="none")
        return
    # Huge pages are not given back one by one: they stay set aside.
    of_huge_pages = spec.memory is not None and spec.memory.hugepages is not None
    # Nor those under CPUs that a guest has for itself: to bring them back takes time from it.
    # Nor those that the CPU encrypts, which are locked.
    keeps = of_huge_pages or spec.launch_security is not None or has_dedicated_cpus(spec) or is_realtime(spec)
    reporting = switch(context.free_page_reporting and not keeps)
    element = add(devices, "memballoon", model=platform.virtio, freePageReporting=reporting)
    if context.balloon_stats_seconds:
        add(element, "stats", period=context.balloon_stats_seconds)
    if platform.iommu:
        add(element, "driver", iommu=platform.iommu)
