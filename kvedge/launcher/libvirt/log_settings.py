"""libvirt's log settings, where the binding was imported before the launcher's environment was known.

Called by the parent of warm launchers and by every launcher. libvirt reads LIBVIRT_LOG_OUTPUTS once, when the binding
is imported, and has no public call for it. The function by which it does so, and its daemons too, is exported all the
same.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Final

_LIBRARY: Final = "libvirt.so.0"
_FUNCTION: Final = "virLogSetFromEnv"

# The library, once it has been loaded early.
_early: list[ctypes.CDLL] = []


def import_early() -> bool:
    """Import the binding in an environment that is not the launcher's; false where libvirt could not read it again.

    Raises:
        ImportError: when there is no binding.
    """
    importlib.import_module("libvirt")
    # The library that the binding has loaded: this opens it a second time, by the same name.
    library = ctypes.CDLL(_LIBRARY)
    if not hasattr(library, _FUNCTION):
        return False
    _early.append(library)
    return True


def catch_up() -> None:
    """Have libvirt read the log settings of the environment as it is now, if it was imported early.

    libvirt says nothing when it cannot use them.
    """
    for library in _early:
        getattr(library, _FUNCTION)()
