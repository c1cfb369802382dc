"""What goes wrong with images, in words for the user.

Raised by the image files of this folder; the node agent turns them into waiting reasons, the CLI into messages.
"""

from __future__ import annotations

import errno


class ImageError(Exception):
    """An image could not be read, fetched or kept; `remedy` says what the user can do, or is empty."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


class ImageNotFound(ImageError):
    """The store has no such image."""


class ImageInUse(ImageError):
    """The image is used by Pods; `users` are their UIDs or names."""

    def __init__(self, reference: str, users: tuple[str, ...]) -> None:
        super().__init__(f"image {reference} is in use by {', '.join(users)}", "stop the VMs that use it first")
        self.users = users


class BadImage(ImageError):
    """The file or the downloaded content is broken, hostile, or of a kind that is not supported."""


class TooMuch(BadImage):
    """Content unpacks to more than its reader takes."""


class RegistryError(ImageError):
    """A registry did not give the image; `temporary` tells whether trying again may help."""

    def __init__(self, message: str, remedy: str = "", *, temporary: bool) -> None:
        super().__init__(message, remedy)
        self.temporary = temporary


class StoreError(ImageError):
    """The store's own file system failed (full, read-only, damaged)."""


def store_error(doing: str, error: OSError) -> ImageError:
    """The error for one of the store's file system, with the remedy that fits: a :class:`StoreError`, but for a file
    that is too large here whatever is done.
    """
    if error.errno == errno.EFBIG:
        return BadImage(f"{doing}: a file is larger than the store's file system or this program's limits allow")
    remedies = {
        errno.ENOSPC: "free some space (kvedge image rm) or move the data directory to a larger disk",
        errno.EDQUOT: "raise the quota of the data directory",
        errno.EROFS: "the data directory's file system is read-only: look at the kernel's log",
        errno.EACCES: "run this as root",
        errno.EPERM: "run this as root",
    }
    return StoreError(f"{doing}: {error.strerror or error}", remedies.get(error.errno or 0, ""))
