"""The files of rings: one for each guest, in a directory of the handler's.

Used by usage_keeper.py, by one thread for writing. What is lost of a graph is no fault: nothing is synced, and a file
that cannot be read begins anew. The directory is bounded, whatever guests come and go.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvedge.handler.usage.usage_ring import BadRing, UsageRing
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.durable_files import write_whole

log = logging.getLogger(__name__)

_SUFFIX: Final = ".ring"
# A guest that has not run for a month has nothing left to be drawn.
_LONGEST_SECONDS: Final = 31 * 24 * 3600.0
# 40 MB.
_MOST_FILES: Final = 1000
# A ring has 40 KB: nothing longer is read.
_LARGEST: Final = 1 << 20


def ring_name(vmi: VirtualMachineInstance) -> str:
    """Whose ring it is: the VM's through all its runs, a bare VMI's for its one.

    Namespace and name are in it, as anybody who makes a VMI chooses the UID of its owner; and it is a plain file name.
    """
    owner = vmi.metadata.controller_reference()
    uid = owner.uid if owner is not None else vmi.metadata.uid
    whose = "\0".join((vmi.metadata.namespace, vmi.metadata.name, uid))
    return hashlib.sha256(whose.encode()).hexdigest()


class UsageFiles:
    """The directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._told = False

    def read(self, name: str) -> UsageRing | None:
        """The ring of this name, or None; a damaged one is removed."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                return UsageRing.read(file.read(_LARGEST))
        except FileNotFoundError:
            return None
        except BadRing as error:
            log.warning("%s is damaged, and its guest's graphs begin anew: %s", path, error)
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        except OSError as error:
            log.warning("%s cannot be read, and its guest's graphs begin anew: %s", path, error)
            return None

    def write(self, name: str, ring: UsageRing) -> None:
        """Write it; what fails is told once, and tried again the next time."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path(name), ring.write())
        except OSError as error:
            if not self._told:
                log.warning("what guests have used cannot be kept in %s: %s", self._directory, error)
            self._told = True
        else:
            self._told = False

    def forget_old(self, now: float) -> None:
        """Remove rings of guests that have not run for a month, and the oldest of too many."""
        # What cannot be removed now is found the next time.
        with contextlib.suppress(OSError):
            newest_first = sorted(self._find(), reverse=True)
            for number, (written, path) in enumerate(newest_first):
                if number >= _MOST_FILES or now - written > _LONGEST_SECONDS:
                    path.unlink(missing_ok=True)

    def _find(self) -> Iterator[tuple[float, Path]]:
        with os.scandir(self._directory) as entries:
            found = [entry for entry in entries if entry.name.endswith(_SUFFIX)]
        for entry in found:
            yield entry.stat(follow_symlinks=False).st_mtime, Path(entry.path)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_SUFFIX}"
