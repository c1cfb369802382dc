"""libvirt's log settings, where the binding was imported before the launcher's environment was known.

Called by the parent of warm launchers and by every launcher. libvirt reads LIBVIRT_LOG_OUTPUTS once, when the binding
is imported, and has no public call for it. The function by which it does so, and its daemons too, is exported all the
same.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

from kvedge.runtime.linux.libraries import find_libvirt_call

_FUNCTION: Final = "virLogSetFromEnv"

# The library's function, once it has been loaded early.
_early: list[Callable[[], object]] = []


def import_early() -> bool:
    """Import the binding in an environment that is not the launcher's; false where libvirt could not read it again.

    Raises:
        ImportError: when there is no binding.
    """
    importlib.import_module("libvirt")
    # The library that the binding has loaded: it is opened a second time, by the same name.
    read_again = find_libvirt_call(_FUNCTION)
    if read_again is None:
        return False
    _early.append(read_again)
    return True


def catch_up() -> None:
    """Have libvirt read the log settings of the environment as it is now, if it was imported early.

    libvirt says nothing when it cannot use them.
    """
    for read_again in _early:
        read_again()
