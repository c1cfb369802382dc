"""What a container says as its last word: a file at its terminationMessagePath, shown in its Pod's status.

Called by the Pod's steps before a start, and by whoever records how a container ended. The file is the container's to
write: it is read within bounds, and cannot be replaced, as only its mount is in the container.
"""

from __future__ import annotations

import os
from typing import Final

from kvedge.standalone.agent.container.container_files import ContainerFiles
from kvedge.standalone.agent.container.container_spec import MountSpec

# As in Kubernetes.
_MOST_BYTES: Final = 4096


def make_termination_mount(files: ContainerFiles, path: str) -> MountSpec:
    """Make the file anew, and mount it at `path` of the container.

    Raises:
        OSError: as the file system has it.
    """
    files.termination.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(files.termination, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        # The container may run as any user.
        os.fchmod(descriptor, 0o666)
    finally:
        os.close(descriptor)
    return {
        "source": str(files.termination),
        "sub_path": "",
        "target": path,
        "read_only": False,
        "follow_host": False,
    }


def read_termination_message(files: ContainerFiles) -> str:
    """What the container has said; empty when it has said nothing, or has no such file."""
    try:
        with files.termination.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
