"""Programs of the node for people who look into a launcher's container: `virsh`, which shows the guest.

Called when the handler starts. They stand beside the seed of libvirt's capabilities, which every launcher Pod has
mounted read-only, so that the launcher's image needs none of them: nodes of all versions can have the same image, and
nothing that runs in the Pod can change them. The Pod's PATH names their directory before the host's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvedge.resources.names import TOOLS_FOLDER
from kvedge.runtime.durable_files import write_whole

_MODE: Final = 0o755


def write_tools(seed: Path, program: Sequence[str]) -> None:
    """Write them into the directory of the seed; `program` starts kvedge in a launcher's container.

    Raises:
        OSError: as the file system has it.
    """
    directory = seed / TOOLS_FOLDER
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = directory / "virsh"
    content = f'#!/bin/sh\nexec {shlex.join([*program, "launcher-virsh"])} "$@"\n'.encode()
    if _is(path, content):
        return
    # Under another name first: a Pod that starts it meanwhile finds it whole, and allowed.
    staged = directory / "virsh.staged"
    write_whole(staged, content)
    staged.chmod(_MODE)
    staged.replace(path)


def _is(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content and path.stat().st_mode & 0o777 == _MODE
    except FileNotFoundError:
        return False
