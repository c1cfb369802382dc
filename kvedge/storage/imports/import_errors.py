"""What goes wrong while a claim is filled, in words for the user of the DataVolume.

Raised by the files of this folder; the worker turns them into its termination message. The texts are CDI's where CDI
has one, as users and tools look for them.
"""

from __future__ import annotations

from typing import Final

TOO_SMALL: Final = "DataVolume too small to contain image"


class ImportFailure(Exception):
    """The claim cannot be filled now; `fatal` says that another attempt with the same job cannot help."""

    def __init__(self, message: str, *, reason: str = "Error", fatal: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.fatal = fatal


class TooSmall(ImportFailure):
    """The image needs `needed` bytes and the claim gives `available`."""

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(
            f"{TOO_SMALL}: virtual image size {needed} is larger than the reported available storage {available}. "
            "A larger PVC is required"
        )
        self.needed = needed
        self.available = available


class ContentEndless(ImportFailure):
    """The source sends more than any image of this size has, or does not stop."""


class ChecksumWrong(ImportFailure):
    """The bytes as they were sent are not those that the checksum stands for."""

    def __init__(self, algorithm: str, wanted: str, found: str) -> None:
        super().__init__(
            f"checksum mismatch: {algorithm} of the data is {found}, expected {wanted}; "
            "correct the checksum in a new DataVolume, or get the right file to the server",
            reason="ChecksumError",
            fatal=True,
        )


class NotStreamable(Exception):
    """An image that has to be read here and there, not as it comes in. Never leaves the folder."""


class OtherLayer(NotStreamable):
    """An archive has to be read again, for the disk of another layer than was taken."""

    def __init__(self, layer: str) -> None:
        super().__init__(layer)
        self.layer = layer
