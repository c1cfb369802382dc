"""What libvirt tells of this host and its QEMU, as `node_capabilities` reads it.

Part of the door to libvirt; called by `libvirt_session`, which translates the errors.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from typing import Any

import libvirt

from kvedge.launcher.libvirt.node_capabilities import HostDocuments


def read_host_documents(connection: Any, *, emulation: bool) -> HostDocuments:
    """libvirt's documents for guests with or without KVM; raises libvirtError when QEMU is missing, or fails."""
    machine = os.uname().machine
    virt_type, chipset = "qemu" if emulation else "kvm", "q35" if machine == "x86_64" else "virt"
    domain = connection.getDomainCapabilities(None, machine, chipset, virt_type)
    return HostDocuments(
        domain_capabilities=domain,
        capabilities=connection.getCapabilities(),
        host_model=_expand_host_model(connection, domain, machine, virt_type, chipset),
        libvirt=libvirt.getVersion(),
        qemu=connection.getVersion(),
    )


def _expand_host_model(connection: Any, domain_capabilities: str, machine: str, virt_type: str, chipset: str) -> str:
    """The host model's CPU with all its features written out; empty when libvirt cannot tell."""
    mode = ElementTree.fromstring(domain_capabilities).find("cpu/mode[@name='host-model'][@supported='yes']")
    if mode is None:
        return ""
    cpu = ElementTree.Element("cpu", mode="custom", match="exact")
    cpu.extend(mode)
    flags = libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    try:
        text = ElementTree.tostring(cpu, encoding="unicode")
        return str(connection.baselineHypervisorCPU(None, machine, chipset, virt_type, [text], flags))
    except libvirt.libvirtError:
        # Some architectures have no models: the short document says all that there is.
        return ""
