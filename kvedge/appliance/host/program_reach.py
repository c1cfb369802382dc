"""Whether user 107, as whom launchers run, can run this program: asked before there is a VM.

Called by `kvedge standalone`, `kvedge node` and `kvedge handler` when they start. A launcher sees /usr and the
program's own directories, at the places that they have on the host. Homes that are closed above those do not matter;
what lies in them must be readable. Only what certainly stands in the way is a reason to refuse the start: a start that
is refused wrongly is worse than a VM that fails. Reads the file system, and logs what it could not judge.
"""

from __future__ import annotations

import itertools
import logging
import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID

log = logging.getLogger(__name__)

# A launcher has its own there: nothing of the host's can be mounted below them.
_OWN_IN_A_LAUNCHER: Final = ("/proc", "/sys")
_SHARED: Final = "/usr"
# Links into it, in the launcher's image.
_MERGED: Final = ("bin", "lib", "lib64", "sbin")
_MOST_LINKS: Final = 40
_READ: Final = 4
_ENTER: Final = 1
_ACL: Final = "system.posix_acl_access"
# Python opens these files when it imports: modules, libraries, and the paths of editable installations.
_IMPORTED: Final = (".py", ".so", ".pth")
_ELSEWHERE: Final = "move the checkout to another place, such as /opt"


class Unreachable(Struct, frozen=True):
    """What a launcher cannot use of the program, and what to do about it."""

    path: str
    reason: str
    remedy: str

    @property
    def fault(self) -> str:
        """What it is, and what to do."""
        return f"launchers run as user {LAUNCHER_UID}, and {self.path} {self.reason}; {self.remedy}"

    def __str__(self) -> str:
        return f"no VM could start: {self.fault}"


def find_unreachable(
    executable: str, directories: Sequence[str], package: str, libraries: Sequence[str]
) -> Unreachable | None:
    """The first thing without which no launcher can start, or None.

    Args:
        executable: what a launcher starts.
        directories: what it sees of the host beside /usr.
        package: the directory of our own package, or of the unpacked executable.
        libraries: directories in which libraries lie; only they themselves are looked at.
    """
    for directory in directories:
        if any(_is_below(directory, own) for own in _OWN_IN_A_LAUNCHER):
            return Unreachable(directory, "is below a directory that every launcher has of its own", _ELSEWHERE)
    return _first_obstacle(directories, itertools.chain([executable], libraries, _list_package(package)))


def find_closed_library(directories: Sequence[str], libraries: Sequence[str]) -> Unreachable | None:
    """The first library that launchers cannot read, or None. It is worth a warning only: it may never be imported.

    Args:
        directories: what a launcher sees of the host beside /usr.
        libraries: directories in which libraries lie; the entries of each are looked at.
    """
    return _first_obstacle(directories, itertools.chain.from_iterable(map(_list_entries, libraries)))


def _first_obstacle(directories: Sequence[str], paths: Iterable[str]) -> Unreachable | None:
    view = _View([*directories, _SHARED])
    doubt: OSError | None = None
    for path in paths:
        try:
            found = view.find_obstacle(path)
        except FileNotFoundError:
            # Gone since its directory was read.
            continue
        except OSError as error:
            # Such as on a file system whose server gives root no more rights than anybody else.
            doubt = doubt or error
            continue
        if found is not None:
            return found
    if doubt is not None:
        log.warning("cannot tell whether launchers can read the program", extra={"facts": {"error": str(doubt)}})
    return None


class _View:
    """The host as a launcher sees it."""

    def __init__(self, roots: Sequence[str]) -> None:
        # The longest first: one may lie within another.
        self._roots = sorted(roots, key=len, reverse=True)
        self._passed: set[str] = set()

    def find_obstacle(self, path: str, links: int = 0) -> Unreachable | None:
        """What keeps the launcher from reading this file or directory."""
        if path.split("/")[1] in _MERGED:
            path = f"{_SHARED}{path}"
        root = next((root for root in self._roots if _is_below(path, root)), None)
        if root is None:
            where = f"is not below {', '.join(sorted(self._roots))}, which is all that they see of this host"
            return Unreachable(path, where, "make the virtual environment anew with /usr/bin/python3")
        walked = root
        # The root itself may be a link: the launcher mounts its target. The target's mode is judged, not its path.
        if (found := self._check_path(root, root)) is not None:
            return found
        for part in filter(None, path[len(root) :].split("/")):
            walked = f"{walked.rstrip('/')}/{part}"
            if os.path.islink(walked):
                if links == _MOST_LINKS:
                    return Unreachable(path, "is a link that leads nowhere", _ELSEWHERE)
                rest = path[len(walked) :]
                target = os.path.normpath(os.path.join(os.path.dirname(walked), os.readlink(walked)))
                return self.find_obstacle(target + rest, links + 1)
            if (found := self._check_path(walked, root)) is not None:
                return found
        return None

    def _check_path(self, path: str, root: str) -> Unreachable | None:
        if path in self._passed:
            return None
        self._passed.add(path)
        facts = os.stat(path)
        wanted = _READ | _ENTER if stat.S_ISDIR(facts.st_mode) else _READ
        if _find_allowed_bits(facts) & wanted == wanted or _has_list(path):
            return None
        remedy = f"run `chmod -R go+rX {shlex.quote(root)}`" if root != _SHARED else _ELSEWHERE
        return Unreachable(path, f"has mode {stat.S_IMODE(facts.st_mode):04o}", remedy)


def _find_allowed_bits(facts: os.stat_result) -> int:
    """What the mode grants to the launcher's user."""
    if facts.st_uid == LAUNCHER_UID:
        return facts.st_mode >> 6 & 7
    return (facts.st_mode >> 3 if facts.st_gid == LAUNCHER_GID else facts.st_mode) & 7


def _has_list(path: str) -> bool:
    """Whether an access control list says more than the mode does; the kernel alone judges by those."""
    try:
        return bool(os.getxattr(path, _ACL))
    except OSError:
        return False


def _is_below(path: str, parent: str) -> bool:
    return path == parent or path.startswith(f"{parent.rstrip('/')}/")


def _list_package(directory: str) -> Iterator[str]:
    """Our package with everything below it; the unpacked executable with what lies beside it."""
    yield directory
    if not os.path.exists(os.path.join(directory, "__init__.py")):
        yield from _list_entries(directory)
        return
    for at, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if _is_needed(at, name)]
        yield from (os.path.join(at, name) for name in directories)
        yield from (os.path.join(at, name) for name in files if _is_needed(at, name))


def _list_entries(directory: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        # The directory itself is judged by its own mode.
        return
    yield from (os.path.join(directory, name) for name in names if _is_needed(directory, name))


def _is_needed(directory: str, name: str) -> bool:
    """Whether Python may need it: no editor's file, no compiled one, which it goes on without, and no link, as what
    that leads to is no part of the tree.
    """
    path = os.path.join(directory, name)
    if name.startswith(".") or name == "__pycache__" or os.path.islink(path):
        return False
    return name.endswith(_IMPORTED) or ".so." in name or os.path.isdir(path)
