"""Keeps log files that a guest can make grow from filling the node's disk.

Called by `domain_watch` now and then. QEMU and libvirt append to these files for as long as the guest runs and nobody
of them rotates: they open them with O_APPEND, so that a file may be cut under their hands. What was cut off stays in
`<file>.1`, byte by byte as the guest wrote it.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
from typing import BinaryIO, Final

from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.names import SERIAL_SOCKET

log = logging.getLogger(__name__)

# Of QEMU's and libvirt's own words, as KubeVirt's virtlogd has it.
LARGEST: Final = 2 << 20
# Of the serial console: a few thousand screens.
LARGEST_SERIAL: Final = 1 << 20
# A guest that writes as fast as it can makes about a megabyte in a second: a log that grew so much since the last look
# is looked at again soon.
FAST: Final = 64 << 10
_PIECE: Final = 64 << 10


class BoundedLogs:
    """The logs of one launcher."""

    def __init__(self, options: LauncherOptions) -> None:
        self._options = options
        self._sizes: dict[str, int] = {}

    def look_after(self) -> bool:
        """Cut what has grown too large; whether one of them grows so fast that it should be looked at again soon."""
        fast = False
        known, self._sizes = self._sizes, {}
        for path, largest in log_files(self._options).items():
            try:
                size = os.path.getsize(path)
                fast = fast or size - known.get(path, 0) > FAST
                # A log that was cut begins anew.
                self._sizes[path] = 0 if cut_log(path, largest) else size
            except OSError as error:
                log.warning("cannot look after a log", extra={"facts": {"file": path, "why": str(error)}})
        return fast


def log_files(options: LauncherOptions) -> dict[str, int]:
    """The serial console's log, QEMU's own words, and libvirt's, each with how large it may become."""
    logs = f"{options.libvirt_root}/log"
    found = {f"{options.run_directory}/{SERIAL_SOCKET}-log": LARGEST_SERIAL, f"{logs}/libvirt.log": LARGEST}
    found |= dict.fromkeys(glob.glob(f"{logs}/qemu/*.log"), LARGEST)
    return {path: largest for path, largest in found.items() if os.path.exists(path)}


def cut_log(path: str, largest: int = LARGEST) -> bool:
    """Empty a log that has grown past `largest` bytes, whose last part is then in `<path>.1`; whether that was needed.

    What is written in the moment between is lost. A disk that is full costs the last part, never the cutting.

    Raises:
        OSError: when the file cannot be cut, or its last part not be kept.
    """
    with open(path, "r+b") as source:
        size = os.fstat(source.fileno()).st_size
        if size <= largest:
            return False
        source.seek(size - largest)
        try:
            _keep(source, path, largest)
        finally:
            source.truncate(0)
    return True


def _keep(source: BinaryIO, path: str, largest: int) -> None:
    staged = f"{path}.new"
    try:
        with open(staged, "wb") as kept:
            while piece := source.read(_PIECE):
                kept.write(piece)
                # A writer that is faster than we are is not waited for.
                if kept.tell() > 2 * largest:
                    break
        os.rename(staged, f"{path}.1")
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged)
        raise
