"""A shared library of the host that is asked without Python's binding of it.

Called by the doctor, which tells how old libvirt is where the binding cannot be imported for that very reason, and by
launchers for what the binding does not have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

_LIBVIRT: Final = "libvirt.so.0"


def ask_libvirt_version() -> int | None:
    """major * 1,000,000 + minor * 1,000 + release (libvirt/libvirt-host.h); None without the library."""
    try:
        library = ctypes.CDLL(_LIBVIRT)
    except OSError:
        return None
    number = ctypes.c_ulong()
    return number.value if library.virGetVersion(ctypes.byref(number), None, None) == 0 else None


def find_libvirt_call(name: str) -> Callable[[], object] | None:
    """A function of libvirt's that takes nothing; None where this libvirt does not export it.

    Raises:
        OSError: when there is no libvirt.
    """
    return getattr(ctypes.CDLL(_LIBVIRT), name, None)
