"""The golden cases of the domain converter: a VMI, what the node adds, and the domain that must come of it.

A case is `domains/<name>.yaml`, two documents: the VMI, and what differs from :func:`_plain_context`. The keys of the
second are those of DomainContext, in camelCase. Used by the unit tests and by tests/machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kvedge.launcher.domain.context import DiskSource, DomainContext
from kvedge.resources.codec import decode
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume

GOLDEN = Path(__file__).parent / "domains"
# All cases are read several times in a run, and in Python alone a case takes milliseconds.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class GoldenCase:
    """One case, read from its file."""

    name: str
    vmi: VirtualMachineInstance
    context: DomainContext
    vmi_document: Mapping[str, Any]
    context_document: Mapping[str, Any]

    @property
    def xml_path(self) -> Path:
        return GOLDEN / f"{self.name}.xml"


def case_names() -> list[str]:
    """The names of all cases."""
    return sorted(path.stem for path in GOLDEN.glob("*.yaml"))


def load_case(name: str) -> GoldenCase:
    """Read one case; a key that no type knows is an error, as a case must not say what nobody reads."""
    vmi_document, context_document = list(yaml.load_all((GOLDEN / f"{name}.yaml").read_text(), _LOADER))
    vmi = decode(VirtualMachineInstance, vmi_document)
    context = context_of(vmi, context_document or {})
    return GoldenCase(name, vmi, context, vmi_document, context_document or {})


def context_of(vmi: VirtualMachineInstance, overrides: Mapping[str, Any]) -> DomainContext:
    """The context of a case: what the launcher would prepare for the VMI, and what the case says of it."""
    return msgspec.convert(_context_document(vmi, overrides), DomainContext)


def _context_document(vmi: VirtualMachineInstance, overrides: Mapping[str, Any]) -> dict[str, Any]:
    document = _plain_context(vmi)
    for key, value in overrides.items():
        name = _snake(key)
        if name not in document and name not in DomainContext.__struct_fields__:
            raise KeyError(f"{key} is nothing that a DomainContext has")
        if name in {"disk_sources", "interfaces"}:
            for entry, fields in value.items():
                document[name][entry] = document[name].get(entry, {}) | _snaked(fields)
        elif name == "host_devices":
            # Its keys are names of the VMI's.
            document[name] = value
        else:
            document[name] = _snaked(value) if isinstance(value, dict) else value
    return document


def _plain_context(vmi: VirtualMachineInstance) -> dict[str, Any]:
    """What the launcher would prepare for this VMI, at the paths where it does."""
    private = f"/var/run/kubevirt-private/{vmi.metadata.uid}"
    return {
        "architecture": {"arm64": "aarch64"}.get(vmi.spec.architecture, "x86_64"),
        "emulation": False,
        "serial_socket": f"{private}/virt-serial0",
        "vnc_socket": f"{private}/virt-vnc",
        "disk_sources": {
            volume.name: msgspec.to_builtins(_plain_source(vmi, index, volume))
            for index, volume in enumerate(vmi.spec.volumes)
        },
        "interfaces": {
            interface.name: {
                "tap": f"tap{index}",
                "mac": interface.mac_address or f"02:00:00:00:01:{index:02x}",
                "mtu": 1500,
            }
            for index, interface in enumerate(vmi.spec.domain.devices.interfaces)
        },
    }


def _plain_source(vmi: VirtualMachineInstance, index: int, volume: Volume) -> DiskSource:
    if volume.container_disk is not None:
        return DiskSource(
            path=f"/var/run/kubevirt-ephemeral-disks/disk-data/{volume.name}/disk.qcow2",
            format="qcow2",
            backing=(f"/var/run/kubevirt-image-volume/disk_{index}/disk/image.img", "raw"),
        )
    if volume.empty_disk is not None:
        return DiskSource(path=f"/var/run/libvirt/empty-disks/{volume.name}.qcow2", format="qcow2")
    if volume.cloud_init_no_cloud is not None or volume.cloud_init_config_drive is not None:
        name = "noCloud.iso" if volume.cloud_init_no_cloud is not None else "configdrive.iso"
        place = f"{vmi.metadata.namespace}/{vmi.metadata.name}"
        return DiskSource(path=f"/var/run/kubevirt-ephemeral-disks/cloud-init-data/{place}/{name}", format="raw")
    return DiskSource(path=f"/var/run/kubevirt-private/vmi-disks/{volume.name}/disk.img", format="raw")


def _snaked(document: Mapping[str, Any]) -> dict[str, Any]:
    return {_snake(key): value for key, value in document.items()}


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
