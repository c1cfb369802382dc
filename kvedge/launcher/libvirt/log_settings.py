"""libvirt's log settings, where the binding was imported before the launcher's environment was known.

Called by a warm launcher and its parent. libvirt reads LIBVIRT_LOG_OUTPUTS once, when the binding is imported, and has
no public call for it. The function by which it does, and its daemons too, is exported all the same.
"""

from __future__ import annotations

import ctypes
from typing import Final

_LIBRARY: Final = "libvirt.so.0"
_FUNCTION: Final = "virLogSetFromEnv"


def can_read_again() -> bool:
    """Whether this libvirt has that function."""
    return hasattr(ctypes.CDLL(_LIBRARY), _FUNCTION)


def read_again() -> None:
    """Take the log settings of the environment as it is now. libvirt says nothing when it cannot use them."""
    # The library that the binding has loaded: this opens it a second time, by the same name.
    getattr(ctypes.CDLL(_LIBRARY), _FUNCTION)()
