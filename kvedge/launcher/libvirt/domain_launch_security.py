"""What libvirt tells of encrypted guests, and takes for them: AMD SEV alone.

Part of the door to libvirt; made by `libvirt_session`, used by `attestation`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvedge.launcher.libvirt.libvirt_errors import translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class SevPlatform:
    """What the host is attested by; both base64."""

    pdh: str
    cert_chain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What the host has measured of a guest that waits; `loader` is the path of its firmware."""

    measurement: str
    api_major: int
    api_minor: int
    build_id: int
    policy: int
    loader: str


class DomainLaunchSecurity:
    """The encryption of one domain; every method may be called from any thread, and raises LauncherError."""

    def __init__(self, connection: Any, find: Callable[[], Any]) -> None:
        """`find()` is the domain; raises LauncherError."""
        self._connection = connection
        self._find = find

    def platform(self) -> SevPlatform:
        """The host's part, also while there is no domain."""
        with translate_errors("asking for what AMD SEV has on this node"):
            found = self._connection.getSEVInfo()
        return SevPlatform(pdh=str(found.get("pdh", "")), cert_chain=str(found.get("cert-chain", "")))

    def measurement(self) -> Measurement:
        """What was measured of the running domain."""
        with translate_errors("asking for the measurement of the guest"):
            domain = self._find()
            found = domain.launchSecurityInfo()
            loader = ElementTree.fromstring(domain.XMLDesc()).findtext("os/loader")
        return Measurement(
            measurement=str(found.get("sev-measurement", "")),
            api_major=int(found.get("sev-api-major", 0)),
            api_minor=int(found.get("sev-api-minor", 0)),
            build_id=int(found.get("sev-build-id", 0)),
            policy=int(found.get("sev-policy", 0)),
            loader=loader or "",
        )

    def inject(self, header: str, secret: str) -> None:
        """Put a secret into the domain's memory, where its firmware has set a place aside."""
        with translate_errors("giving the guest its secret"):
            self._find().setLaunchSecurityState({"sev-secret-header": header, "sev-secret": secret})
