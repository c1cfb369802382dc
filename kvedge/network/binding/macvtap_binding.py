"""Makes a macvtap in a Pod ready for its guest: the guest's MAC, its guard, and the device by which QEMU opens it.

Called by `ready_tap` in the Pod's namespace, and by the handler, which gives the launcher the devices' nodes. Touches
the link, a `kvedge_guard_*` table of family netdev, and reads sysfs. May be repeated at any time: a guard that somebody
has undone is put back.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kvedge.network.binding.binding_state import GUARD_PREFIX
from kvedge.network.binding.macvtap_rules import MACVTAP, guard_of, stale_guards
from kvedge.network.errors import MacInUseError, NetworkError, NotSupportedError
from kvedge.network.link_types import Link
from kvedge.network.links import Links
from kvedge.network.netns import NetnsRef, run_in_netns
from kvedge.network.nft.nft_edge import delete_table, is_whole, list_tables, replace_table
from kvedge.network.nft.nft_tables import Family
from kvedge.runtime.linux.mounts import MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, make_mount

_HARMLESS: Final = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC


class TapDevice(Struct, frozen=True):
    """The character device of a macvtap, which is to be /dev/tapINDEX: libvirt looks for it there."""

    index: int
    number: int


def prepare_macvtap(links: Links, link: Link, guest_mac: str) -> None:
    """Make it so, in the namespace of `links`; an empty `guest_mac` is that of the link.

    Raises:
        NetworkError: when the kernel refuses.
    """
    mac = guest_mac or link.mac
    _guard(links, link, mac)
    if link.mac != mac:
        # It takes no frame but for its own.
        _change(links, link, mac, address=mac)
    if not link.all_multicast:
        # A guest says to nobody which groups it listens to, and IPv6 asks for neighbours by groups.
        links.take_all_multicast(link.name)
    if not link.up:
        _change(links, link, mac, state="up")


def macvtap_devices(netns: NetnsRef) -> dict[str, TapDevice]:
    """The devices of all macvtaps of a namespace, by the links' names. Raises NetworkError."""

    def look() -> dict[str, TapDevice]:
        with Links() as links:
            found = [link for link in links.list_links() if link.kind == MACVTAP]
        return _devices(found) if found else {}

    return run_in_netns(netns, look)


def _guard(links: Links, link: Link, mac: str) -> None:
    table = guard_of(link, mac)
    try:
        for name in stale_guards(list_tables(Family.NETDEV, GUARD_PREFIX), links.list_links()):
            delete_table(Family.NETDEV, name)
        if not is_whole(table):
            replace_table(table, {})
    except NotSupportedError as error:
        raise NotSupportedError(
            "cannot keep a guest in bounds on",
            subject=link.name,
            errno=error.errno,
            remedy="this needs Linux 5.16 with CONFIG_NETFILTER_EGRESS and NF_TABLES_NETDEV: use a bridge binding",
        ) from error


def _change(links: Links, link: Link, mac: str, **settings: str) -> None:
    try:
        links.set(link.name, **settings)
    except NetworkError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EBUSY):
            raise
        raise MacInUseError(
            "cannot give the guest its MAC",
            subject=mac,
            why="another guest of this node, or the host itself, has it on the same NIC",
            remedy="give one of them another macAddress",
        ) from error


def _devices(found: list[Link]) -> dict[str, TapDevice]:
    # The host's own /sys shows no link of a Pod.
    try:
        with _hold_open(make_mount("sysfs", _HARMLESS)) as sys:
            return {link.name: TapDevice(link.index, _read_number(sys, link)) for link in found}
    except OSError as error:
        raise NetworkError(
            "cannot find the device of", subject=found[0].name, why=str(error), errno=error.errno or 0
        ) from error


def _read_number(sys: int, link: Link) -> int:
    path = f"class/net/{link.name}/tap{link.index}/dev"
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=sys)) as file:
        major, _, minor = file.read(32).strip().partition(":")
    return os.makedev(int(major), int(minor))


@contextlib.contextmanager
def _hold_open(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
