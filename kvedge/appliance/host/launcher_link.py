"""The path under which launcher Pods of a cluster find this node's program, whatever its version.

A controller names `<data-dir>/launcher` for all nodes, also for those that have another version than its own; each node
keeps it pointing at the tree that its own handler runs from. Runtimes resolve a hostPath when a Pod starts, so that a
launcher which runs keeps the tree that it was started from, by its mount. Changes one link.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from kvedge.runtime.program import is_frozen, program_command, program_directories
from kvedge.runtime.services import ServiceError

LINK: Final = "launcher"


def launcher_command(data_dir: Path) -> list[str]:
    """The argv that starts kvedge in a launcher Pod of a cluster; a checkout is where it is on all nodes."""
    return [str(data_dir / LINK / "kvedge")] if is_frozen() else program_command()


def launcher_directories(data_dir: Path) -> list[str]:
    """What a launcher Pod of a cluster must see for that, besides /usr."""
    return [str(data_dir / LINK)] if is_frozen() else program_directories()


def point_link(link: Path, tree: Path) -> None:
    """Make the link name the tree. A process that looks meanwhile finds the old tree or the new one.

    Raises:
        OSError: as the file system has it; a directory in its place is not replaced.
    """
    if link.is_symlink() and os.readlink(link) == str(tree):
        return
    link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    staged = link.with_name(f".{link.name}.new")
    staged.unlink(missing_ok=True)
    staged.symlink_to(tree)
    staged.replace(link)


class LauncherLink:
    """A service that stands before the handler: the node takes no VM before the link is right."""

    name = "launcher program"

    def __init__(self, data_dir: Path) -> None:
        self._link = data_dir / LINK

    def start(self) -> None:
        """Point it here; a checkout needs none.

        Raises:
            ServiceError: when it cannot be made.
        """
        if not is_frozen():
            return
        try:
            point_link(self._link, Path(sys.executable).parent)
        except OSError as error:
            raise ServiceError(self.name, f"{self._link} cannot be made: {error.strerror}") from error

    def stop(self) -> None:
        """It stays: a Pod may be about to start."""

    def failure(self) -> str | None:
        """Never, once it was made."""
        return None
