"""The steps that change a host: what each says to the user, and how it is done.

Made by the plans, carried out here and nowhere else. Files are replaced as a whole, and on disk before the next step
begins, so that a power cut leaves the old one or the new one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from kvedge.appliance.host.systemctl_client import load_modules, systemctl
from kvedge.appliance.install.data_directory import remove_entry
from kvedge.appliance.install.unpacked_trees import remove_all_trees
from kvedge.runtime.durable_files import put_durably


class MakeDirectory(Struct, frozen=True):
    """A directory with this mode; a present directory is left as it is."""

    path: Path
    mode: int = 0o755

    @property
    def text(self) -> str:
        """For the user."""
        return f"make directory {self.path}"


class WriteFile(Struct, frozen=True):
    """A file with this content."""

    path: Path
    content: bytes
    mode: int = 0o644

    @property
    def text(self) -> str:
        """For the user."""
        return f"write {self.path}"


class CopyFile(Struct, frozen=True):
    """A file like another."""

    source: Path
    target: Path
    mode: int = 0o755

    @property
    def text(self) -> str:
        """For the user."""
        return f"copy {self.source} to {self.target}"


class Remove(Struct, frozen=True):
    """A file or a whole directory goes; its absence is no error."""

    path: Path

    @property
    def text(self) -> str:
        """For the user."""
        return f"remove {self.path}"


class RemoveTrees(Struct, frozen=True):
    """All unpacked versions of the program go; what else lies in their directory is not ours."""

    path: Path

    @property
    def text(self) -> str:
        """For the user."""
        return f"remove {self.path}"


class SetAside(Struct, frozen=True):
    """A file goes into this directory; its absence is no error."""

    path: Path
    directory: Path

    @property
    def text(self) -> str:
        """For the user."""
        return f"keep {self.path} in {self.directory}"


class Systemctl(Struct, frozen=True):
    """A call of systemctl."""

    arguments: tuple[str, ...]
    # How long it may take, in seconds.
    seconds: float = 60.0

    @property
    def text(self) -> str:
        """For the user."""
        return f"systemctl {' '.join(self.arguments)}"


class LoadModules(Struct, frozen=True):
    """Kernel modules for now; those that this kernel does not have are told by the doctor."""

    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """For the user."""
        return f"load modules {', '.join(self.names)}"


Step: TypeAlias = MakeDirectory | WriteFile | CopyFile | Remove | RemoveTrees | SetAside | Systemctl | LoadModules


def carry_out(steps: Sequence[Step], progress: Callable[[str], None]) -> None:
    """Do them in order; `progress` is told of each before it begins.

    Raises:
        OSError: as the file system has it.
        SystemdError: when systemctl fails.
    """
    for step in steps:
        progress(step.text)
        _carry_out(step)


def _carry_out(step: Step) -> None:
    match step:
        case MakeDirectory():
            step.path.mkdir(mode=step.mode, parents=True, exist_ok=True)
        case WriteFile():
            replace_file(step.path, step.mode, lambda staged: staged.write_bytes(step.content))
        case CopyFile():
            replace_file(step.target, step.mode, lambda staged: shutil.copyfile(step.source, staged))
        case Remove():
            remove_entry(step.path)
        case RemoveTrees():
            remove_all_trees(step.path)
        case SetAside():
            step.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if step.path.exists():
                step.path.rename(step.directory / step.path.name)
        case Systemctl():
            systemctl(*step.arguments, seconds=step.seconds)
        case LoadModules():
            load_modules(step.names)


def replace_file(path: Path, mode: int, write: Callable[[Path], object]) -> None:
    """Write beside it, sync, and rename over it.

    Raises:
        OSError: as the file system has it; the file is then as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.new")
    try:
        write(staged)
        staged.chmod(mode)
        put_durably(staged, path)
    finally:
        staged.unlink(missing_ok=True)
