"""The errors of everything in `kvedge/network`.

Netlink, socket and file errors never pass the doors of this folder; they arrive here with their facts in fields, so
that a caller can decide by them and never by a text. Imported by the launcher too: nothing but the standard library
here.
"""

from __future__ import annotations

import errno as errno_codes


class NetworkError(Exception):
    """Something about links, addresses, namespaces, filters or sockets could not be done.

    `doing` says what was tried, `subject` on what (a link, a namespace, an address), `errno` is the kernel's number
    or 0 when the refusal is our own, `remedy` is what the operator can do, or empty.
    """

    def __init__(self, doing: str, *, subject: str = "", why: str = "", errno: int = 0, remedy: str = "") -> None:
        self.doing = doing
        self.subject = subject
        self.errno = errno
        self.why = why or (errno_codes.errorcode.get(errno, str(errno)) if errno else "")
        self.remedy = remedy
        parts = [doing, f" {subject}" if subject else "", f": {self.why}" if self.why else ""]
        super().__init__("".join(parts) + (f"; {remedy}" if remedy else ""))


class NotSupportedError(NetworkError):
    """The running kernel lacks what was asked for (a link kind, a filter expression)."""


class LostStateError(NetworkError):
    """A Pod's network was changed already and what it was before is known no more: its Pod has to be replaced."""


class UnsuitablePodError(NetworkError):
    """The Pod's interface is of a kind that cannot carry a guest: only another CNI configuration, and Pod, can."""


class MacInUseError(NetworkError):
    """Another guest, or another Pod of the node, has this MAC already."""


class AddressesExhaustedError(NetworkError):
    """No address of the range is free."""


class OverlapError(NetworkError):
    """A range of ours is in use on this host already."""
