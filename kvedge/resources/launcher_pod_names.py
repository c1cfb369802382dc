"""What a VMI's launcher Pod is called: the controller makes it under this name, and clients ask for its events by it.

Pure.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from kvedge.resources.names import LAUNCHER_APP
from kvedge.resources.types.vmi import VirtualMachineInstance

_LONGEST_LABEL: Final = 63
_SUFFIX_LENGTH: Final = 5


def launcher_pod_name(vmi: VirtualMachineInstance, migration: str = "") -> str:
    """The one name that this run's launcher Pod can have: `virt-launcher-<vmi>-<from its UID>`.

    With `migration`, the UID of one, that of the one Pod to which the guest can come by it.
    """
    digest = hashlib.sha256((migration or vmi.metadata.uid).encode()).digest()
    suffix = base64.b32encode(digest).decode().lower()[:_SUFFIX_LENGTH]
    room = _LONGEST_LABEL - len(LAUNCHER_APP) - _SUFFIX_LENGTH - 2
    return f"{LAUNCHER_APP}-{vmi.metadata.name[:room].rstrip('-.')}-{suffix}"
