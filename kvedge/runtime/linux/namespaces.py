"""Leaving and entering namespaces.

Called by the network's and the handler's threads that work in another namespace, by the container starter, by the
probe of libvirt's capabilities, and by what shares a directory with a guest. The calls concern the thread that makes
them, or its children.
"""

from __future__ import annotations

from typing import Final

from kvedge.runtime.linux.calls import check, libc

CLONE_FS: Final = 0x00000200
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000


def unshare(flags: int) -> None:
    """unshare(2)."""
    check(libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """setns(2)."""
    check(libc.setns(descriptor, kind), "setns")


def set_host_name(name: str) -> None:
    """sethostname(2)."""
    raw = name.encode()
    check(libc.sethostname(raw, len(raw)), "set the host name")
