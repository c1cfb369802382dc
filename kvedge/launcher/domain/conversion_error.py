"""What the converter says when a VMI cannot become a domain.

Raised by every file of this folder, answered by the launcher's gRPC server as INVALID_ARGUMENT: such a VMI is never
worth a second try. Admission refuses most of it earlier; this is the second line. Touches nothing.
"""

from __future__ import annotations


class ConversionError(ValueError):
    """A VMI that no domain can be made of.

    `field` is the path in the VMI (`spec.domain.devices.disks[0].cache`), `detail` what is wrong with it, `remedy` what
    the user can do about it.
    """

    def __init__(self, field: str, detail: str, remedy: str) -> None:
        super().__init__(f"{field}: {detail}; {remedy}")
        self.field = field
        self.detail = detail
        self.remedy = remedy
