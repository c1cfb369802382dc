"""A guest that fills its memory, uses its disks, and serves pages: for what its Pod holds of the host's memory then."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Final

from tests.support.hotplug_guest import HotplugGuest
from tests.support.waiting import wait_until

# A guest keeps room for its own kernel and programs.
_FILLED: Final = 0.6
# Random, so that no two pages are alike.
_FILL: Final = """
mkdir -p /fill && mount -t tmpfs -o size=95% fill /fill
dd if=/dev/urandom of=/fill/one bs=1M count=8 2>/dev/null
n=1; while [ $n -lt {eighths} ]; do cat /fill/one >/fill/more$n || break; n=$((n + 1)); done
cp /fill/one /www/page
echo filled
"""
_USE_DISKS: Final = """
for disk in /dev/vd[c-z] /dev/sd[a-z]; do
    [ -b $disk ] || continue
    dd if=/fill/one of=$disk bs=64k conv=fsync 2>/dev/null
    dd if=$disk of=/dev/null bs=4k count=2048 2>/dev/null
done
echo used
"""
_READERS: Final = 8


def fill_memory(guest: HotplugGuest, size: int) -> None:
    """Have the guest, whose memory has `size` bytes, touch nearly all of it."""
    wait_until(lambda: _said(guest, "echo up") == "up\n", "the guest runs commands", 180)
    assert _said(guest, _FILL.format(eighths=int(size * _FILLED) >> 23), 300).endswith("filled\n")


def use_disks(guest: HotplugGuest) -> None:
    """Have it write and read each disk beside the first two."""
    assert _said(guest, _USE_DISKS, 600).endswith("used\n")


def fetch_pages(guest: HotplugGuest) -> None:
    """Fetch 8 MiB from it several times at once."""
    address = guest.vmi().status.interfaces[0].ip_address
    fetch = ["curl", "-sf", "--noproxy", "*", "--max-time", "120", "-o", "/dev/null", f"http://{address}/page"]
    fetching = [subprocess.Popen(fetch) for _ in range(_READERS)]
    assert [each.wait() for each in fetching] == [0] * _READERS


def _said(guest: HotplugGuest, command: str, seconds: float = 20.0) -> str:
    with suppress(subprocess.CalledProcessError):
        return guest.run(command, seconds)
    return ""
