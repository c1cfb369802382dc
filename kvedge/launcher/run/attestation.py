"""How the owner of an encrypted guest finds out where it runs, and gives it a secret.

Kept by `domain_run`; called by the gRPC server's threads. Reads the guest's firmware.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import BadRequest, Unreadable
from kvedge.rpc.launcher_pb2 import InjectLaunchSecretRequest, LaunchMeasurement, SevInfo

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

# Of firmware, of which there are 2 to 16 MiB.
_LARGEST_LOADER: Final = 64 << 20
_PIECE: Final = 1 << 20


class Attestation:
    """The attestation of one guest by AMD SEV; every method may be called from any thread."""

    def __init__(self, session: LibvirtSession) -> None:
        self._session = session

    def platform(self) -> SevInfo:
        """By what the host is known. Raises LauncherError."""
        found = self._session.launch_security.platform()
        return SevInfo(pdh=found.pdh, cert_chain=found.cert_chain)

    def measurement(self) -> LaunchMeasurement:
        """What the host says of the guest before it runs. Raises LauncherError."""
        found = self._session.launch_security.measurement()
        return LaunchMeasurement(
            measurement=found.measurement,
            api_major=found.api_major,
            api_minor=found.api_minor,
            build_id=found.build_id,
            policy=found.policy,
            loader_sha256=hash_loader(found.loader),
        )

    def inject(self, request: InjectLaunchSecretRequest) -> None:
        """Give the guest a secret. Raises LauncherError."""
        for name, value in (("header", request.header), ("secret", request.secret)):
            if not value:
                raise BadRequest(name, f"{name.capitalize()} is required")
        self._session.launch_security.inject(request.header, request.secret)


def hash_loader(path: str) -> str:
    """The SHA-256 of a guest's firmware, in hexadecimal.

    Raises:
        Unreadable: when it cannot be read, or is too large to be one.
    """
    digest, left = hashlib.sha256(), _LARGEST_LOADER
    try:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                left -= len(piece)
                if left < 0:
                    raise Unreadable(f"the firmware {path} is larger than {_LARGEST_LOADER} bytes")
                digest.update(piece)
    except OSError as error:
        raise Unreadable(f"the firmware {path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()
