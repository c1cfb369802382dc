"""Which virtiofsd a node has, and how it is started on a socket that somebody else has opened.

Called by `share_server`, and by the launcher's preparation, which sees the same /usr. Only looks for files; imports
only what is built into the interpreter, as such a program waits in each of these containers.
"""

from __future__ import annotations

import os

# The one in Rust, of Debian 13 and others, before the one of QEMU up to 7.2, as Debian 12 has it.
_RUST = ("/usr/libexec/virtiofsd", "/usr/lib/virtiofsd")
_OF_QEMU = ("/usr/lib/qemu/virtiofsd",)
REMEDY = "install the package virtiofsd there, or on Debian 12 qemu-system-common"


class Daemon:
    """A program that serves a directory; `needs_root` says that it starts as root alone, be it of a namespace."""

    __slots__ = ("needs_root", "path")

    def __init__(self, path: str, *, needs_root: bool) -> None:
        self.path = path
        self.needs_root = needs_root

    def arguments(self, directory: str, socket: int) -> list[str]:
        """Its command line: it serves one QEMU that connects to the socket with this number, and ends with it."""
        if self.needs_root:
            sandbox = ["-o", f"source={directory}", "-o", "sandbox=chroot", "-o", "cache=auto"]
            # What may be open at once has been set already: root of a namespace cannot raise it.
            return [self.path, f"--fd={socket}", "--rlimit-nofile=0", *sandbox]
        # The container has nothing beside the directory; for more, this one would want other rights than it has.
        return [self.path, f"--fd={socket}", f"--shared-dir={directory}", "--sandbox=none", "--cache=auto"]


def find_daemon(root: str = "/") -> Daemon | None:
    """The node's; None when it has none."""
    for paths, needs_root in ((_RUST, False), (_OF_QEMU, True)):
        for path in paths:
            if os.access(os.path.join(root, path.lstrip("/")), os.X_OK):
                return Daemon(path, needs_root=needs_root)
    return None
