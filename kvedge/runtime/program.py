"""How this very program is started again: in a launcher Pod, as a probe, in a unit file.

Called where a command line is rendered. Reads `sys` only. A frozen program is one executable; from a checkout it is
the interpreter with `-m kvedge`.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import kvedge


def is_frozen() -> bool:
    """Whether this is the built executable."""
    return bool(getattr(sys, "frozen", False))


def program_command() -> list[str]:
    """The argv that starts kvedge, without a subcommand."""
    if is_frozen():
        return [sys.executable]
    # -P: the working directory in which a launcher is started is never a place to import from.
    return [sys.executable, "-P", "-m", "kvedge"]


def foreign_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program that is not ours: without the library path that the built executable runs with."""
    found = dict(environment)
    if is_frozen():
        found.pop("LD_LIBRARY_PATH", None)
        # What it was before the executable set its own.
        if original := found.pop("LD_LIBRARY_PATH_ORIG", ""):
            found["LD_LIBRARY_PATH"] = original
    return found


def program_directories() -> list[str]:
    """Directories beside /usr that must be visible, read-only and at the same path, for the program to run.

    They hold the interpreter's environment and the package, or the unpacked executable; those below /usr are left
    out, as a launcher Pod sees all of /usr.
    """
    found = {Path(sys.executable).parent} if is_frozen() else _find_interpreted_directories()
    outside = sorted(path for path in found if not path.is_relative_to("/usr"))
    kept: list[Path] = []
    for path in outside:
        if not any(path.is_relative_to(parent) for parent in kept):
            kept.append(path)
    return [str(path) for path in kept]


def program_package() -> str:
    """The directory of our own package, or of the unpacked executable."""
    return str(Path(sys.executable).parent if is_frozen() else Path(kvedge.__file__).resolve().parent)


def program_libraries() -> list[str]:
    """Directories in which the libraries of the program lie; the built executable has them within itself."""
    if is_frozen():
        return []
    libraries = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    # Everybody may read the distribution's files below /usr.
    return sorted(path for path in libraries if not Path(path).is_relative_to("/usr"))


def program_file() -> Path | None:
    """The one file that the user started, of which this program is the unpacked tree; None from a checkout, and in a
    launcher Pod, which starts the tree's own program.
    """
    name = str(getattr(sys, "kvedge_file", ""))
    return Path(name) if name else None


def program_licences() -> Path | None:
    """The licences of everything that is in the built program, as one text; None from a checkout."""
    return Path(sys.executable).parent / "licences.txt" if is_frozen() else None


def _find_interpreted_directories() -> set[Path]:
    package = Path(kvedge.__file__).resolve().parent
    paths = {Path(sys.prefix), Path(sys.base_prefix), package}
    paths.add(Path(sysconfig.get_path("stdlib")))
    # An editable installation finds the package through a path that may be a link.
    paths.add(Path(kvedge.__file__).parent)
    return paths
