"""`<graphics>`, `<redirdev>`, `<video>` and `<input>`: the screen on unix sockets, and what points at it.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.alias_xml import add_alias
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.names import GRAPHICS, SPICE_PACKAGE
from kvedge.resources.types.devices import Devices, Input
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import has_screen, wants_spice

_VIDEO_TYPES: Final = ("vga", "bochs", "virtio", "cirrus", "ramfb")
_VIDEO: Final = "spec.domain.devices.video"
_VGA_MEMORY_KIB: Final = 16_384
_GRAPHICS: Final = f"metadata.annotations[{GRAPHICS}]"
_USB_CHANNELS: Final = 2


def inputs_of(spec: Devices, platform: Platform) -> list[Input]:
    """The VM's tablets; one is added when the VMI asks for it, and on arm64, which has no PS/2 mouse, with any screen.

    Raises:
        ConversionError: for an input that is no tablet.
    """
    for index, entry in enumerate(spec.inputs):
        field = f"spec.domain.devices.inputs[{index}]"
        if entry.type not in {"", "tablet"}:
            raise ConversionError(f"{field}.type", f"{entry.type} is not supported", "use tablet")
        if entry.bus not in {"", "usb", "virtio"}:
            raise ConversionError(f"{field}.bus", f"{entry.bus} is not supported", "use usb or virtio")
    if spec.inputs:
        return spec.inputs
    wanted = spec.autoattach_input_device or (platform.architecture == "aarch64" and has_screen(spec))
    return [Input(name="default-0")] if wanted else []


def has_keyboard(spec: Devices, platform: Platform) -> bool:
    """Whether a USB keyboard is added: arm64 has none of its own."""
    return platform.architecture == "aarch64" and has_screen(spec)


def add_inputs(devices: Element, spec: Devices, platform: Platform) -> None:
    """Tablets, and the keyboard of arm64."""
    for index, entry in enumerate(inputs_of(spec, platform)):
        bus = entry.bus or "usb"
        # KubeVirt writes this model for every machine: QEMU has no other tablet than one of virtio 1.0.
        model = "virtio" if bus == "virtio" else None
        element = add(devices, "input", type="tablet", bus=bus, model=model)
        add_alias(element, entry.name, f"spec.domain.devices.inputs[{index}].name")
    if has_keyboard(spec, platform):
        add(devices, "input", type="keyboard", bus="usb")


def add_graphics(devices: Element, vmi: VirtualMachineInstance, context: DomainContext) -> None:
    """VNC, and SPICE when the VMI asks for it, each reachable through its socket only.

    Raises:
        ConversionError: for SPICE where the node's QEMU has none.
    """
    if has_screen(vmi.spec.domain.devices):
        element = add(devices, "graphics", type="vnc")
        add(element, "listen", type="socket", socket=context.vnc_socket)
    if wants_spice(vmi):
        if context.spice_socket is None:
            raise ConversionError(_GRAPHICS, "QEMU of this node has no SPICE", f"install {SPICE_PACKAGE}, or use vnc")
        element = add(devices, "graphics", type="spice")
        add(element, "listen", type="socket", socket=context.spice_socket)
        # Files go by other ways; a viewer's user may not know that a drop on its window is one.
        add(element, "filetransfer", enable="no")


def add_usb_channels(devices: Element, vmi: VirtualMachineInstance) -> None:
    """Ports for USB devices of a SPICE client's computer."""
    if wants_spice(vmi):
        for _ in range(_USB_CHANNELS):
            add(devices, "redirdev", bus="usb", type="spicevmc")


def add_video(devices: Element, spec: Devices, platform: Platform) -> None:
    """One head.

    Raises:
        ConversionError: for a type that kvedge does not know, and for video without graphics.
    """
    if not has_screen(spec):
        if spec.video is not None:
            raise ConversionError(_VIDEO, "there is no screen", "remove it, or autoattachGraphicsDevice: false")
        return
    kind = (spec.video.type if spec.video is not None else "") or _default_video(platform)
    if kind not in _VIDEO_TYPES:
        raise ConversionError(f"{_VIDEO}.type", f"{kind} is not supported", f"use one of {', '.join(_VIDEO_TYPES)}")
    # bochs and ramfb take their memory from elsewhere, virtio from the guest.
    vram = _VGA_MEMORY_KIB if kind in {"vga", "cirrus"} else None
    add(add(devices, "video"), "model", type=kind, heads=1, vram=vram)


def _default_video(platform: Platform) -> str:
    if platform.architecture == "aarch64":
        return "virtio"
    return "vga" if platform.firmware == "bios" else "bochs"
