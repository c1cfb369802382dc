"""`<name>`, `<uuid>` and `<metadata>`: which VMI a domain is of.

The metadata lets a launcher that comes back over a running guest tell whether the domain is still of its VMI.
Touches nothing.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID
from xml.etree.ElementTree import Element, QName, SubElement, register_namespace

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.names import domain_name
from kvedge.resources.types.vmi import VirtualMachineInstance

METADATA_NAMESPACE: Final = "https://kvedge.io/domain/v1"
register_namespace("kvedge", METADATA_NAMESPACE)


def add_identity(domain: Element, vmi: VirtualMachineInstance) -> None:
    """The domain's name is `<namespace>_<name>`, its UUID the firmware's (the VMI's own when there is none)."""
    add(domain, "name", domain_name(vmi.metadata.namespace, vmi.metadata.name))
    add(domain, "uuid", domain_uuid(vmi))
    metadata = add(domain, "metadata")
    entry = SubElement(metadata, str(QName(METADATA_NAMESPACE, "vmi")))
    entry.set("namespace", vmi.metadata.namespace)
    entry.set("name", vmi.metadata.name)
    entry.set("uid", vmi.metadata.uid)


def domain_uuid(vmi: VirtualMachineInstance) -> str:
    """The UUID that libvirt, SMBIOS and cloud-init know this VM by.

    Raises:
        ConversionError: when what the VMI has there is none.
    """
    firmware = vmi.spec.domain.firmware
    field, text = "metadata.uid", vmi.metadata.uid
    if firmware is not None and firmware.uuid:
        field, text = "spec.domain.firmware.uuid", firmware.uuid
    try:
        return str(UUID(text))
    except ValueError as error:
        raise ConversionError(field, f"{text!r} is no UUID", "remove it to get one") from error
