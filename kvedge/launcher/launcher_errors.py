"""What goes wrong in a launcher, each kind with its facts.

Raised by the doors and the deciding code of this folder; `launcher_server` turns them into gRPC status codes. Touches
nothing.
"""

from __future__ import annotations


class LauncherError(Exception):
    """Base of all of them; the text is for the user."""


class WrongState(LauncherError):
    """The domain is not in a state in which this can be done."""


class DomainMissing(WrongState):
    """There is no domain (yet)."""


class Postponed(LauncherError):
    """Not now, and that is no fault of anybody's: it is to be asked for again later."""


class BadRequest(LauncherError):
    """The VMI cannot become a domain here, however often it is tried; `field` is its path in the VMI."""

    def __init__(self, field: str, detail: str, remedy: str = "") -> None:
        super().__init__("; ".join(part for part in (f"{field}: {detail}", remedy) if part))
        self.field = field
        self.detail = detail
        self.remedy = remedy


class ClaimUnusable(LauncherError):
    """A claim cannot be the guest's disk as it is now; it is tried again, as the claim may be mended.

    A file of the host has no claim.
    """

    def __init__(self, field: str, claim: str, detail: str, remedy: str = "") -> None:
        said = f"{field}: PVC {claim}: {detail}" if claim else f"{field}: {detail}"
        super().__init__("; ".join(part for part in (said, remedy) if part))
        self.field = field
        self.claim = claim
        self.detail = detail
        self.remedy = remedy


class DeviceUnusable(LauncherError):
    """A device of the node cannot be the guest's as it is now; it is tried again, as the node may be mended."""

    def __init__(self, field: str, detail: str, remedy: str) -> None:
        super().__init__(f"{field}: {detail}; {remedy}")
        self.field = field
        self.detail = detail
        self.remedy = remedy


class DiskFull(LauncherError):
    """No space where something had to be written; `path` is what was being made."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(
            f"no space left for {path} ({detail}); free some space on the node, or give the volume a smaller capacity"
        )
        self.path = path
        self.detail = detail


class Unanswered(LauncherError):
    """libvirt, QEMU or the guest agent did not answer in time: try again."""


class Unreadable(LauncherError):
    """What the guest agent answered could not be read at all; the text never quotes it."""


class LibvirtFailed(LauncherError):
    """libvirt refused; `code` and `domain` are its numbers, `detail` its words."""

    def __init__(self, doing: str, code: int, domain: int, detail: str) -> None:
        super().__init__(f"{doing}: {detail}")
        self.doing = doing
        self.code = code
        self.domain = domain
        self.detail = detail


class HookFailed(LauncherError):
    """A hook sidecar refused, or answered nonsense; it is asked again, as its refusal may pass."""

    def __init__(self, sidecar: str, detail: str) -> None:
        super().__init__(f"hook sidecar {sidecar}: {detail}")
        self.sidecar = sidecar
        self.detail = detail
