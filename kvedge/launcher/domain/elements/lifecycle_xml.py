"""`<on_poweroff>`, `<on_reboot>` and `<on_crash>`: what libvirt does when the guest ends by itself.

Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.domain import DomainSpec


def add_lifecycle(domain: Element, spec: DomainSpec) -> None:
    """A reboot stays within the same QEMU, unless the VMI wants it to end the run; a crash always ends it."""
    add(domain, "on_poweroff", "destroy")
    add(domain, "on_reboot", "destroy" if spec.reboot_policy == "Terminate" else "restart")
    add(domain, "on_crash", "destroy")
