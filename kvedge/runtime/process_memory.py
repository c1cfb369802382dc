"""Memory that a process has no use for goes back to the host.

Called by launchers once their guest runs, and by the roles once they serve. Touches this process's heap and mappings.
"""

from __future__ import annotations

import gc

from kvedge.runtime.linux.memory import forget_pages, trim_allocations


def give_back() -> None:
    """Return what starting has left free, and the code that only starting needed."""
    gc.collect()
    trim_allocations()
    unmap_code()


def unmap_code() -> None:
    """Let go of the pages of programs and libraries; the kernel maps those that are used again, from the page cache.

    libvirt alone brings eighty libraries along, and starting runs through most of them once. The kernel keeps code that
    is mapped when it needs memory; code that is not, it can forget. Nothing is lost: code is never written to.
    """
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, permissions, *_, file = line.split(maxsplit=5)
            if permissions == "r-xp" and file.startswith("/"):
                start, end = (int(address, 16) for address in addresses.split("-"))
                forget_pages(start, end)
