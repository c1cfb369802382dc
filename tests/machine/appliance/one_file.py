"""Runs the one file as a user does, and looks at what it unpacked.

Used by the tests of this folder.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

NOBODY = 65534


def start(
    program: Path,
    *arguments: str,
    data: Path | None = None,
    before: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; `before` is a command that runs the command after it, such as setpriv."""
    variables = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(environment or {})}
    if data is not None:
        variables["KVEDGE_DATA_DIR"] = str(data)
    return subprocess.run(
        [*before, str(program), *arguments], capture_output=True, text=True, check=False, env=variables, cwd="/"
    )


def on_file_system(options: str, mount_point: Path, then: str = "") -> list[str]:
    """A command to run another one where a small file system is mounted; `then` is run as a shell's line after it."""
    script = f'mount -t tmpfs -o {options} none {mount_point} && {{ "$@"; code=$?; {then or ":"}; exit $code; }}'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


def as_nobody(program: Path) -> list[str]:
    """A command to run another one without any rights."""
    assert program.stat().st_mode & 0o005 == 0o005
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def the_tree(place: Path) -> Path:
    """The only tree in a directory, in which there is nothing else but the locks."""
    (name,) = set(os.listdir(place)) - {".lock", ".starts"}
    assert len(name) == 64
    return place / name
