"""Paths of the host that Pods or volumes name: their type is checked, and what may be made is made.

Called when a Pod's volumes are set up; may be repeated. The types are Kubernetes'. Touches the paths named alone.
"""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_KINDS: Final = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket"),
}


class HostPathError(Exception):
    """A path is not what was asked for; the text is for a FailedMount event."""


def prepare_host_path(path: Path, kind: str) -> None:
    """Make a path that is to be made, and check what it is; an empty `kind` asks for nothing but that it is there.

    Raises:
        HostPathError: it is not there or of another type, or kvedge does not know the type.
        OSError: as the file system has it.
    """
    if kind == "DirectoryOrCreate":
        # Of a path that is something else it is said below.
        with suppress(FileExistsError):
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        kind = "Directory"
    elif kind == "FileOrCreate":
        path.touch(mode=0o644, exist_ok=True)
        kind = "File"
    try:
        facts = path.stat()
    except FileNotFoundError as error:
        raise HostPathError(f"hostPath type check failed: {path} is not there") from error
    if not kind:
        return
    if kind not in _KINDS:
        raise HostPathError(f"hostPath type {kind} is not supported: use a device plugin's resource for devices")
    check, what = _KINDS[kind]
    if not check(facts.st_mode):
        raise HostPathError(f"hostPath type check failed: {path} is not {what}")
