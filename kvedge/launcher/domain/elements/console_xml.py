"""`<serial>`, `<channel>` and `<redirdev>`: the serial console, the channels of the guest agent, of metrics and of
SPICE's agent, slots for USB devices of clients; all but SPICE's on unix sockets.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.disks.metrics_disk import METRICS_PORT
from kvedge.resources.names import USB_SLOTS
from kvedge.resources.types.devices import Devices
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import wants_spice

GUEST_AGENT: Final = "org.qemu.guest_agent.0"
SPICE_AGENT: Final = "com.redhat.spice.0"


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


def add_spice_channel(devices: Element, vmi: VirtualMachineInstance) -> None:
    """For SPICE's agent in the guest: the clipboard, and a screen of the window's size."""
    if wants_spice(vmi):
        element = add(devices, "channel", type="spicevmc")
        add(element, "target", type="virtio", name=SPICE_AGENT)


def add_agent_channel(devices: Element, context: DomainContext) -> None:
    """The guest agent's channel is always there: whether an agent answers is the guest's matter."""
    _add_channel(devices, context.agent_channel, GUEST_AGENT)


def add_metrics_channel(devices: Element, spec: Devices, context: DomainContext) -> None:
    """The port by which the guest asks for metrics of its host, where the VMI has one."""
    if spec.downward_metrics is not None:
        _add_channel(devices, context.metrics_channel, METRICS_PORT)


def add_usb_slots(devices: Element, spec: Devices, context: DomainContext) -> None:
    """Where clients plug USB devices of theirs in, each behind a socket that speaks usbredir.

    Raises:
        ConversionError: when the node's QEMU has no such device.
    """
    if spec.client_passthrough is None:
        return
    if not context.redirects_usb:
        raise ConversionError(
            "spec.domain.devices.clientPassthrough",
            "the QEMU of this node has no device usb-redir",
            "install it there (Debian: qemu-system-common), or remove clientPassthrough",
        )
    for number in range(USB_SLOTS):
        element = add(devices, "redirdev", bus="usb", type="unix")
        add(element, "source", mode="bind", path=f"{context.usb_socket}{number}")


def _add_channel(devices: Element, path: str | None, name: str) -> None:
    element = add(devices, "channel", type="unix")
    add(element, "source", mode="bind", path=path)
    add(element, "target", type="virtio", name=name)
