"""A whole domain: the one thing that the launcher calls of this folder.

Pure: the same VMI and context give the same text, byte for byte. Elements come in the order in which libvirt prints
them, so that a golden file reads like `virsh dumpxml`. Touches nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.clock_xml import add_clock
from kvedge.launcher.domain.elements.console_xml import (
    add_agent_channel,
    add_metrics_channel,
    add_serial,
    add_spice_channel,
    add_usb_slots,
)
from kvedge.launcher.domain.elements.controller_xml import add_controllers, add_root_ports
from kvedge.launcher.domain.elements.cpu_xml import add_cpu
from kvedge.launcher.domain.elements.disk_xml import add_disks
from kvedge.launcher.domain.elements.display_xml import add_graphics, add_inputs, add_usb_channels, add_video
from kvedge.launcher.domain.elements.features_xml import add_features
from kvedge.launcher.domain.elements.hostdev_xml import add_functions, add_host_devices, needs_usb
from kvedge.launcher.domain.elements.identity_xml import add_identity
from kvedge.launcher.domain.elements.interface_xml import add_interfaces
from kvedge.launcher.domain.elements.iothread_plan import IoThreadPlan, plan_io_threads
from kvedge.launcher.domain.elements.lifecycle_xml import add_lifecycle
from kvedge.launcher.domain.elements.memballoon_xml import add_memballoon
from kvedge.launcher.domain.elements.memory_xml import add_memory, add_memory_device, guest_memory
from kvedge.launcher.domain.elements.os_xml import add_os
from kvedge.launcher.domain.elements.panic_xml import add_panic_devices
from kvedge.launcher.domain.elements.rng_xml import add_rng
from kvedge.launcher.domain.elements.sound_xml import add_sound
from kvedge.launcher.domain.elements.sysinfo_xml import add_firmware_files, add_sysinfo
from kvedge.launcher.domain.elements.tpm_xml import add_tpm
from kvedge.launcher.domain.elements.vcpu_xml import add_vcpu
from kvedge.launcher.domain.elements.watchdog_xml import add_watchdog
from kvedge.launcher.domain.filesystem_xml import add_filesystems
from kvedge.launcher.domain.launch_security_xml import add_launch_security
from kvedge.launcher.domain.placement.cputune_xml import add_cputune
from kvedge.launcher.domain.placement.numa_plan import plan_numa
from kvedge.launcher.domain.placement.numa_xml import add_cells, add_numatune
from kvedge.launcher.domain.placement.pin_plan import plan_pins
from kvedge.launcher.domain.placement.root_complex import is_on_root, place_on_root
from kvedge.launcher.domain.placement.tagged_devices import place_tagged
from kvedge.launcher.domain.platform import Platform, platform_of
from kvedge.launcher.domain.vsock_xml import add_vsock
from kvedge.launcher.domain.xml_tree import add, new, text_of
from kvedge.resources.counters.tsc_frequency import find_told_frequency
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import wants_spice

__all__ = ["ConversionError", "render_domain"]


def render_domain(vmi: VirtualMachineInstance, context: DomainContext) -> str:
    """The domain XML of a VMI on the node that the context describes.

    Raises:
        ConversionError: when no domain can be made of it; never worth a retry.
    """
    platform = platform_of(vmi, context.architecture)
    threads = plan_io_threads(vmi, context)
    spec = vmi.spec.domain
    domain = new("domain", type="qemu" if context.emulation else "kvm")
    add_identity(domain, vmi)
    add_memory(domain, spec, platform.architecture)
    add_vcpu(domain, spec, platform.architecture)
    if threads.count:
        add(domain, "iothreads", threads.count)
    pins = plan_pins(vmi, context, threads.count)
    cells = plan_numa(spec, context, pins)
    add_cputune(domain, spec, pins)
    add_numatune(domain, cells)
    add_sysinfo(domain, vmi, context)
    add_firmware_files(domain, context)
    add_os(domain, vmi, platform, context)
    add_features(domain, spec, platform, context)
    add_cells(add_cpu(domain, spec, platform, context), cells)
    # QEMU that emulates has a counter of its own.
    add_clock(domain, spec, platform, None if context.emulation else find_told_frequency(vmi))
    add_lifecycle(domain, spec)
    _add_devices(domain, vmi, platform, context, threads)
    add_launch_security(domain, spec.launch_security, platform, context)
    return text_of(domain)


def _add_devices(
    domain: Element, vmi: VirtualMachineInstance, platform: Platform, context: DomainContext, threads: IoThreadPlan
) -> None:
    spec = vmi.spec.domain.devices
    devices = add(domain, "devices")
    if context.emulator is not None:
        add(devices, "emulator", context.emulator)
    add_disks(devices, vmi, platform, context, threads)
    add_controllers(devices, vmi, platform, passes_usb=needs_usb(context))
    add_filesystems(devices, vmi, context.root)
    add_interfaces(devices, vmi, platform, context)
    add_serial(devices, spec, context)
    add_agent_channel(devices, context)
    add_spice_channel(devices, vmi)
    add_metrics_channel(devices, spec, context)
    add_inputs(devices, spec, platform)
    add_tpm(devices, spec.tpm, context)
    add_graphics(devices, vmi, context)
    add_sound(devices, spec.sound, by_spice=wants_spice(vmi))
    add_video(devices, spec, platform)
    add_functions(devices, vmi, context)
    tagged = place_tagged(vmi, context, platform)
    add_host_devices(devices, vmi, context, {each.device: each.place for each in tagged})
    add_usb_slots(devices, spec, context)
    add_usb_channels(devices, vmi)
    add_watchdog(devices, spec.watchdog, platform)
    add_memballoon(devices, vmi.spec.domain, platform, context)
    add_rng(devices, spec.rng, platform)
    add_panic_devices(devices, spec.panic_devices, platform, context)
    add_memory_device(devices, vmi.spec.domain, platform.architecture)
    add_vsock(devices, vmi, platform)
    placed = sum(1 for each in tagged if each.place and each.device.kind != "usb")
    if is_on_root(vmi):
        place_on_root(devices, platform)
        return
    memory = guest_memory(vmi.spec.domain)
    add_root_ports(devices, platform, memory, hotplug=not spec.disable_hotplug, placed=placed)
