"""A shared library of the host that is asked one number, without Python's binding of it.

Called by the doctor, which tells how old libvirt is where the binding cannot be imported for that very reason.
"""

from __future__ import annotations

import ctypes


def ask_libvirt_version() -> int | None:
    """major * 1,000,000 + minor * 1,000 + release (libvirt/libvirt-host.h); None without the library."""
    try:
        library = ctypes.CDLL("libvirt.so.0")
    except OSError:
        return None
    number = ctypes.c_ulong()
    return number.value if library.virGetVersion(ctypes.byref(number), None, None) == 0 else None
