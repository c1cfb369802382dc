"""What a guest is known by: derived from the VM, never from the run, so that no restart changes it.

Called by the controller (a VM's VMI gets them written into its spec) and by the handler (for a VMI without a VM).
Touches nothing.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Final

# KubeVirt's name space for firmware UUIDs of VMs that carry none.
FIRMWARE_NAMESPACE: Final = uuid.UUID("6a1a24a1-4061-4607-8bf4-a3963d0c5895")

# A DNS label is no longer.
_LONGEST_LABEL: Final = 63


def guest_mac(owner_uid: str, interface_name: str) -> str:
    """The MAC of one interface: locally administered, unicast, the same for the same VM and interface.

    The UID, not the name, is hashed: two boxes on one LAN may both have a VM called default/web.
    """
    digest = hashlib.sha256(f"{owner_uid}/{interface_name}".encode()).digest()
    first = (digest[0] | 0x02) & 0xFE
    return ":".join(f"{byte:02x}" for byte in (first, *digest[1:6]))


def plain_mac(address: str) -> str:
    """One address has one text, which libvirt and the kernel understand; manifests may write it with dashes.

    >>> plain_mac("52-54-00-AB-CD-EF")
    '52:54:00:ab:cd:ef'
    """
    return address.lower().replace("-", ":")


def firmware_uuid(owner_uid: str) -> str:
    """The firmware UUID of a VM that carries none, or of a VMI without a VM, of which the request that made it is."""
    return str(uuid.uuid5(FIRMWARE_NAMESPACE, owner_uid))


def guest_hostname(hostname: str, name: str) -> str:
    """What the guest is called by DHCP and by cloud-init: `spec.hostname`, else the VMI's name up to its first dot."""
    return hostname or name.split(".")[0][:_LONGEST_LABEL].rstrip("-")
