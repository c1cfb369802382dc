"""Small VMIs and contexts for the converter's tests."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, fromstring

from kvedge.launcher.domain.context import DiskSource, DomainContext, InterfaceTarget, OvmfFiles
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with

UID = "6a0e8a0c-8a5d-47d1-b2c4-0a4d6a3f00ff"


def vmi(domain: dict[str, Any] | None = None, **spec: Any) -> VirtualMachineInstance:
    """A VMI with 64Mi of memory and what is given; `status` goes beside the spec."""
    status = spec.pop("status", {})
    merged = {"memory": {"guest": "64Mi"}, **(domain or {})}
    return vmi_with({"architecture": "amd64", "domain": merged, **spec}, status, name="vm", namespace="ns", uid=UID)


def with_disk(disk: dict[str, Any], **devices: Any) -> VirtualMachineInstance:
    """A VMI with one disk called `d`, and a volume for it."""
    return vmi(
        {"devices": {"disks": [{"name": "d", **disk}], **devices}},
        volumes=[{"name": "d", "emptyDisk": {"capacity": "1Gi"}}],
    )


def context(**fields: Any) -> DomainContext:
    """A node where everything is there: a disk `d`, a tap for the interface `n`, UEFI firmware, no KVM."""
    defaults: dict[str, Any] = {
        "architecture": "x86_64",
        "emulation": True,
        "serial_socket": "/run/serial",
        "vnc_socket": "/run/vnc",
        "disk_sources": {"d": DiskSource(path="/disks/d", format="raw")},
        "interfaces": {"n": InterfaceTarget(tap="tap0", mac="02:00:00:00:00:01")},
        "ovmf": OvmfFiles(code="/ovmf/code", vars_template="/ovmf/vars", nvram="/run/vars", secure=True),
    }
    return DomainContext(**(defaults | fields))


def rendered(of: VirtualMachineInstance, **fields: Any) -> Element:
    """The domain of a VMI, parsed."""
    return fromstring(render_domain(of, context(**fields)))


def only(root: Element, path: str) -> Element:
    """The one element at a path."""
    found = root.findall(path)
    assert len(found) == 1, f"{len(found)} elements at {path}"
    return found[0]
