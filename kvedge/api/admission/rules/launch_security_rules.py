"""Rules for guests whose memory is encrypted, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. Whether a node can do it is the scheduler's to find out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, unsupported_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import SEV_GATE, TDX_GATE
from kvedge.resources.types.domain import Efi, LaunchSecurity, Sev

# Of a chain of certificates, in base64; AMD's has 6 KB.
_LONGEST_BLOB: Final = 64 * 1024


def encryption_is_possible(subject: Subject) -> Iterator[Cause]:
    """One kind, switched on, with a firmware that it can start."""
    security = subject.spec.domain.launch_security
    if security is None:
        return
    if subject.architecture != "amd64":
        text = f"No launchSecurity support for architecture: {subject.architecture}"
        yield Cause(subject.at.at("architecture"), text)
        return
    at = subject.domain_at.at("launchSecurity")
    kinds = _list_kinds(security)
    if len(kinds) != 1:
        yield Cause(at, "One and only one launchSecurity type can be set", "FieldValueForbidden")
        return
    gate = TDX_GATE if security.tdx is not None else SEV_GATE
    if not subject.cluster.configuration.gates.is_on(gate):
        yield Cause(at, f"{gate} feature gate is not enabled in kubevirt-config")
        return
    yield from _firmware_causes(subject, security, kinds[0], at)
    yield from _device_causes(subject, kinds[0], at)
    if security.sev is not None:
        yield from _attestation_causes(subject, security.sev, at)


def _list_kinds(security: LaunchSecurity) -> list[str]:
    members = {"SEV": security.sev, "SNP": security.snp, "TDX": security.tdx}
    return [name for name, member in members.items() if member is not None]


def _firmware_causes(subject: Subject, security: LaunchSecurity, kind: str, at: Field) -> Iterator[Cause]:
    features = subject.spec.domain.features
    smm = features.smm if features is not None else None
    if security.tdx is not None and smm is not None and smm.enabled is not False:
        yield Cause(at, "TDX does not work along with SMM")
    efi = _find_efi(subject)
    if efi is None:
        yield Cause(at, f"{kind} requires OVMF (UEFI)")
        return
    if security.uses_sev and efi.secure_boot is not False:
        yield Cause(at, f"{kind} does not work along with SecureBoot")
    if security.sev is None and efi.persistent:
        yield Cause(at, f"{kind} does not work along with Persistent EFI variables")


def _find_efi(subject: Subject) -> Efi | None:
    firmware = subject.spec.domain.firmware
    loader = firmware.bootloader if firmware is not None else None
    return None if loader is None else loader.efi


def _device_causes(subject: Subject, kind: str, at: Field) -> Iterator[Cause]:
    devices = subject.spec.domain.devices
    for interface in devices.interfaces:
        if interface.boot_order is not None:
            yield Cause(at, f"{kind} does not work with bootable NICs: {interface.name}")
    if devices.use_virtio_transitional:
        here = subject.devices_at.at("useVirtioTransitional")
        yield unsupported_cause(here, f"{here}: transitional devices cannot reach encrypted memory; set it to false")


def _attestation_causes(subject: Subject, sev: Sev, at: Field) -> Iterator[Cause]:
    if sev.attestation is not None and subject.spec.start_strategy != "Paused":
        yield Cause(at, "SEV attestation requires VMI StartStrategy 'Paused'")
    for name, blob in (("session", sev.session), ("dhCert", sev.dh_cert)):
        here = at.at("sev", name)
        if not is_blob(blob):
            yield Cause(here, f"{here} must be base64, of {_LONGEST_BLOB} characters at most")


def is_blob(text: str) -> bool:
    """Whether it is base64 of a size that libvirt may be given."""
    if len(text) > _LONGEST_BLOB:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


RULES: Final[tuple[Rule, ...]] = (encryption_is_possible,)
