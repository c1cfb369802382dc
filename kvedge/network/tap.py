"""Taps: made through /dev/net/tun in the namespace of the calling thread, for an unprivileged QEMU to open by name.

Called by `bridge_binding` as root inside the Pod's namespace.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

from kvedge.network.errors import NetworkError

TUN_DEVICE: Final = "/dev/net/tun"
# _IOW('T', n, int) of linux/if_tun.h.
TUNSETIFF: Final = 0x400454CA
TUNSETPERSIST: Final = 0x400454CB
TUNSETOWNER: Final = 0x400454CC
TUNSETGROUP: Final = 0x400454CE
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000
# QEMU and vhost-net exchange offload headers on it; libvirt asks for it whenever the kernel has it.
IFF_VNET_HDR: Final = 0x4000
IFF_MULTI_QUEUE: Final = 0x0100
# struct ifreq: the name, the flags, padding to its size.
IFREQ: Final = struct.Struct("16sH22x")


def make_tap(name: str, owner: tuple[int, int], *, multi_queue: bool) -> None:
    """Makes a tap that stays after this call and that `owner` (uid, gid) may open without privilege.

    A tap that is made but not yet persistent vanishes with a crash: it is there with its owner, or not at all.
    """
    flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (IFF_MULTI_QUEUE if multi_queue else 0)
    uid, gid = owner
    try:
        opened = os.open(TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        remedy = "load the tun module of this kernel" if error.errno else ""
        raise NetworkError("cannot open", subject=TUN_DEVICE, errno=error.errno or 0, remedy=remedy) from error
    try:
        fcntl.ioctl(opened, TUNSETIFF, IFREQ.pack(name.encode(), flags))
        fcntl.ioctl(opened, TUNSETOWNER, uid)
        fcntl.ioctl(opened, TUNSETGROUP, gid)
        fcntl.ioctl(opened, TUNSETPERSIST, 1)
    except OSError as error:
        raise NetworkError("cannot make tap", subject=name, errno=error.errno or 0) from error
    finally:
        os.close(opened)
