"""`<launchSecurity>`: how the guest's memory is encrypted.

libvirt fills in what the node's CPU says of it. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.libvirt_versions import SEV_SNP, TDX, require_libvirt
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.domain import LaunchSecurity, Sev

_FIELD: Final = "spec.domain.launchSecurity"
_OTHERWISE: Final = "use a node with a newer libvirt, or remove it"
# Bits of AMD's policies, which KubeVirt sets as well: nobody debugs the guest, its registers are encrypted too.
NO_DEBUG: Final = 1 << 0
ENCRYPTED_STATE: Final = 1 << 2
# Of SEV-SNP: its vCPUs may share cores; a bit that must be set.
SNP_THREADS: Final = 1 << 16
SNP_RESERVED: Final = 1 << 17


def add_launch_security(
    domain: Element, security: LaunchSecurity | None, platform: Platform, context: DomainContext
) -> None:
    """One of the three kinds.

    Raises:
        ConversionError: when this node cannot do it.
    """
    if security is None:
        return
    if platform.architecture != "x86_64":
        raise ConversionError(_FIELD, "is not there on arm64", "remove it")
    if context.emulation:
        raise ConversionError(_FIELD, "needs KVM, and this guest is emulated", "use a node whose CPU encrypts guests")
    if security.sev is not None:
        _add_sev(domain, security.sev)
    elif security.snp is not None:
        require_libvirt(context, SEV_SNP, f"{_FIELD}.snp", _OTHERWISE)
        add(add(domain, "launchSecurity", type="sev-snp"), "policy", f"0x{SNP_THREADS | SNP_RESERVED:08x}")
    elif security.tdx is not None:
        require_libvirt(context, TDX, f"{_FIELD}.tdx", _OTHERWISE)
        add(domain, "launchSecurity", type="tdx")
    else:
        raise ConversionError(_FIELD, "names no way to encrypt the guest", "set sev, snp or tdx")


def _add_sev(domain: Element, sev: Sev) -> None:
    element = add(domain, "launchSecurity", type="sev")
    policy = NO_DEBUG | (ENCRYPTED_STATE if sev.encrypts_state else 0)
    add(element, "policy", f"0x{policy:04x}")
    if sev.dh_cert:
        add(element, "dhCert", sev.dh_cert)
    if sev.session:
        add(element, "session", sev.session)
