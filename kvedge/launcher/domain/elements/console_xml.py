"""`<serial>` and `<channel>`: the serial console and the guest agent's channel, both on unix sockets.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.devices import Devices

GUEST_AGENT: Final = "org.qemu.guest_agent.0"


def add_serial(devices: Element, spec: Devices, context: DomainContext) -> None:
    """The first serial port; its log, when there is one, gets what the guest writes even while nobody is connected."""
    if spec.autoattach_serial_console is False:
        return
    element = add(devices, "serial", type="unix")
    add(element, "source", mode="bind", path=context.serial_socket)
    if context.serial_log is not None and spec.log_serial_console is not False:
        add(element, "log", file=context.serial_log, append="on")
    add(element, "target", port=0)
    console = add(devices, "console", type="unix")
    add(console, "source", mode="bind", path=context.serial_socket)
    add(console, "target", type="serial", port=0)


def add_agent_channel(devices: Element, context: DomainContext) -> None:
    """The guest agent's channel is always there: whether an agent answers is the guest's matter."""
    element = add(devices, "channel", type="unix")
    add(element, "source", mode="bind", path=context.agent_channel)
    add(element, "target", type="virtio", name=GUEST_AGENT)
