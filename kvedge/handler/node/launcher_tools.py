"""Programs of the node in a launcher's container: `virsh`, which shows the guest to people who look into it, and
`virt-freezer`, by which backups freeze it.

Called when the handler starts. They stand beside the seed of libvirt's capabilities, which every launcher Pod has
mounted read-only, so that the launcher's image needs none of them: nodes of all versions can have the same image, and
nothing that runs in the Pod can change them. The Pod's PATH names their directory before the host's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvedge.resources.names import FREEZER_TOOL, PROGRAM_VARIABLE, TOOLS_FOLDER
from kvedge.runtime.durable_files import write_whole

_MODE: Final = 0o755
# A launcher has the program that it was started from, whatever the node has by now: only its Pod can say where.
_SCRIPT: Final = f"""\
#!/bin/sh
eval "exec ${{{PROGRAM_VARIABLE}:?is not set: this is no container of a launcher}} %s \\"\\$@\\""
"""
# By their names: the verbs of the launcher's program.
_TOOLS: Final = {"virsh": "launcher-virsh", FREEZER_TOOL: "launcher-freezer"}


def write_tools(seed: Path) -> None:
    """Write them into the directory of the seed.

    Raises:
        OSError: as the file system has it.
    """
    directory = seed / TOOLS_FOLDER
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, verb in _TOOLS.items():
        _write_tool(directory / name, (_SCRIPT % verb).encode())


def _write_tool(path: Path, script: bytes) -> None:
    if _is_there(path, script):
        return
    # Under another name first: a launcher that starts it meanwhile finds it whole, and allowed.
    staged = path.with_name(f"{path.name}.staged")
    write_whole(staged, script)
    staged.chmod(_MODE)
    staged.replace(path)


def _is_there(path: Path, script: bytes) -> bool:
    try:
        return path.read_bytes() == script and path.stat().st_mode & 0o777 == _MODE
    except FileNotFoundError:
        return False
