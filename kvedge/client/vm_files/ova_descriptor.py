"""The description of an appliance (OVF 1.1) of a VM: what VirtualBox, VMware and virt-v2v read of it.

Called by exports. Pure. Hardware is what each of them has: an LSI Logic controller, or AHCI where the VM's first disk
is on SATA, and Intel's NICs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import QuantityError, parse_quantity

_OVF: Final = "http://schemas.dmtf.org/ovf/envelope/1"
_RASD: Final = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
_VSSD: Final = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData"
_VMW: Final = "http://www.vmware.com/schema/ovf"
_FORMAT: Final = "http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"
# CIM's numbers: the hardware's kinds, and an operating system of 64 bits that is not told.
_CPU: Final = 3
_MEMORY: Final = 4
_SCSI: Final = 6
_NIC: Final = 10
_DISK: Final = 17
_SATA: Final = 20
_OTHER_64: Final = "102"
_VERSION: Final = "vmx-10"
_MIB: Final = 1 << 20
_NETWORK: Final = "VM Network"
_CONTROLLER: Final = "3"


class Image(NamedTuple):
    """One disk in the appliance: its volume, its file, the guest's size and the file's, in bytes."""

    volume: str
    file: str
    capacity: int
    size: int


def name_image(number: int, volume: str, suffix: str) -> str:
    """The file of a disk.

    >>> name_image(0, "root", "vmdk")
    'disk1-root.vmdk'
    """
    safe = re.sub(r"[^A-Za-z0-9-]", "-", volume)[:40]
    return f"disk{number + 1}-{safe}.{suffix}"


def describe(vm: JsonObject, disks: Sequence[Image]) -> bytes:
    """The document."""
    for prefix, space in (("ovf", _OVF), ("rasd", _RASD), ("vssd", _VSSD), ("vmw", _VMW)):
        ElementTree.register_namespace(prefix, space)
    name = str(vm["metadata"].get("name") or "vm")
    envelope = Element(_in(_OVF, "Envelope"))
    references = SubElement(envelope, _in(_OVF, "References"))
    for number, disk in enumerate(disks, 1):
        file = {"href": disk.file, "id": f"file{number}", "size": str(disk.size)}
        SubElement(references, _in(_OVF, "File"), _attributes(file))
    _describe_disks(envelope, disks)
    networks = _section(envelope, "NetworkSection", "The networks")
    network = SubElement(networks, _in(_OVF, "Network"), _attributes({"name": _NETWORK}))
    SubElement(network, _in(_OVF, "Description")).text = "The network of the first interface"
    system = SubElement(envelope, _in(_OVF, "VirtualSystem"), _attributes({"id": name}))
    SubElement(system, _in(_OVF, "Info")).text = "A virtual machine"
    SubElement(system, _in(_OVF, "Name")).text = name
    kind = _section(system, "OperatingSystemSection", "The kind of operating system")
    kind.set(_in(_OVF, "id"), _OTHER_64)
    _describe_hardware(system, name, vm, disks)
    ElementTree.indent(envelope)
    return bytes(ElementTree.tostring(envelope, encoding="utf-8", xml_declaration=True)) + b"\n"


def _describe_disks(envelope: Element, disks: Sequence[Image]) -> None:
    section = _section(envelope, "DiskSection", "The disks")
    for number, disk in enumerate(disks, 1):
        described = {
            "capacity": str(disk.capacity),
            "capacityAllocationUnits": "byte",
            "diskId": f"vmdisk{number}",
            "fileRef": f"file{number}",
            "format": _FORMAT,
        }
        SubElement(section, _in(_OVF, "Disk"), _attributes(described))


def _describe_hardware(system: Element, name: str, vm: JsonObject, disks: Sequence[Image]) -> None:
    domain = _domain(vm)
    hardware = _section(system, "VirtualHardwareSection", "The hardware")
    info = SubElement(hardware, _in(_OVF, "System"))
    for key, value in (
        ("ElementName", "Virtual Hardware Family"),
        ("InstanceID", "0"),
        ("VirtualSystemIdentifier", name),
        ("VirtualSystemType", _VERSION),
    ):
        SubElement(info, _in(_VSSD, key)).text = value
    cpus, memory = count_cpus(domain), count_memory(domain) // _MIB
    _item(hardware, 1, f"{cpus} virtual CPUs", _CPU, AllocationUnits="hertz * 10^6", VirtualQuantity=cpus)
    _item(hardware, 2, f"{memory} MB of memory", _MEMORY, AllocationUnits="byte * 2^20", VirtualQuantity=memory)
    is_sata = _first_bus(domain) == "sata"
    kind, sub_type = (_SATA, "AHCI") if is_sata else (_SCSI, "lsilogic")
    _item(hardware, int(_CONTROLLER), "Controller of the disks", kind, Address=0, ResourceSubType=sub_type)
    for number, disk in enumerate(disks):
        # The controller itself is at 7.
        unit = number if is_sata or number < 7 else number + 1
        resource = {"HostResource": f"ovf:/disk/vmdisk{number + 1}", "Parent": _CONTROLLER}
        _item(hardware, 10 + number, f"Disk {disk.volume}", _DISK, AddressOnParent=unit, **resource)
    for number, nic in enumerate((domain.get("devices") or {}).get("interfaces") or ()):
        more = {"Address": str(nic["macAddress"]).lower()} if nic.get("macAddress") else {}
        more |= {"AutomaticAllocation": "true", "Connection": _NETWORK, "ResourceSubType": "E1000"}
        _item(hardware, 1000 + number, f"Interface {nic.get('name')}", _NIC, **more)
    if ((domain.get("firmware") or {}).get("bootloader") or {}).get("efi") is not None:
        attributes = {_in(_VMW, "key"): "firmware", _in(_VMW, "value"): "efi", _in(_OVF, "required"): "false"}
        SubElement(hardware, _in(_VMW, "Config"), attributes)


def count_cpus(domain: JsonObject) -> int:
    """How many CPUs a guest has that says so; one otherwise."""
    cpu = domain.get("cpu") or {}
    found = 1
    for key in ("sockets", "cores", "threads"):
        found *= int(cpu.get(key) or 1)
    if found > 1:
        return found
    resources = domain.get("resources") or {}
    for way in ("limits", "requests"):
        if value := (resources.get(way) or {}).get("cpu"):
            return max(1, round(_quantity(value)))
    return found


def count_memory(domain: JsonObject) -> int:
    """The guest's memory in bytes; 1 GiB where it says nothing."""
    resources = domain.get("resources") or {}
    for value in (
        (domain.get("memory") or {}).get("guest"),
        (resources.get("requests") or {}).get("memory"),
        (resources.get("limits") or {}).get("memory"),
    ):
        if value and (found := int(_quantity(value))) >= _MIB:
            return found
    return 1 << 30


def _quantity(value: Any) -> float:
    try:
        return float(parse_quantity(value))
    except QuantityError:
        return 0.0


def _first_bus(domain: JsonObject) -> str:
    for disk in (domain.get("devices") or {}).get("disks") or ():
        if "disk" in disk:
            return str((disk["disk"] or {}).get("bus") or "")
    return ""


def _domain(vm: JsonObject) -> JsonObject:
    template = vm["spec"].get("template") or {}
    found: JsonObject = (template.get("spec") or {}).get("domain") or {}
    return found


def _item(hardware: Element, number: int, name: str, kind: int, **more: object) -> None:
    """One piece of hardware; OVF wants its elements in the order of the alphabet."""
    values = {"ElementName": name, "InstanceID": number, "ResourceType": kind, **more}
    item = SubElement(hardware, _in(_OVF, "Item"))
    for key in sorted(values):
        SubElement(item, _in(_RASD, key)).text = str(values[key])


def _section(parent: Element, name: str, info: str) -> Element:
    section = SubElement(parent, _in(_OVF, name))
    SubElement(section, _in(_OVF, "Info")).text = info
    return section


def _attributes(values: dict[str, str]) -> dict[str, str]:
    return {_in(_OVF, key): value for key, value in values.items()}


def _in(space: str, name: str) -> str:
    return f"{{{space}}}{name}"
