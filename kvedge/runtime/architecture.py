"""This machine's architecture in the words of Kubernetes and of images.

Called by the roles. What a VM is that names none, unless the KubeVirt object says otherwise: as in KubeVirt, that of
the control plane's own host.
"""

from __future__ import annotations

import platform
from typing import Final

_WORDS: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def host_architecture() -> str:
    """Such as amd64 or arm64; the kernel's own word for one that Kubernetes calls the same."""
    machine = platform.machine()
    return _WORDS.get(machine, machine)
