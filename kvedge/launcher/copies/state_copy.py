"""A running VM's own state in a copy of its disks: packed while the guest stands, written to its volume afterwards.

Part of `disk_copies`. Reads the claim that keeps the state, and writes an archive into the directory of the run, from
which a launcher that comes later goes on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Final

from kvedge.launcher.launcher_errors import WrongState
from kvedge.resources.disks.claim_places import STATE_VOLUME, claim_directory
from kvedge.resources.disks.hotplug_places import hotplug_path
from kvedge.storage.beneath import hold_directory

_PACKED: Final = "state-copy"


class StateCopy:
    """The state in the copies of one guest."""

    def __init__(self, directory: str, root: str) -> None:
        """`directory` is that of the run, `root` what is before the Pod's paths."""
        self._packed = f"{directory}/{_PACKED}"
        self._claim = root + claim_directory(STATE_VOLUME)
        self._root = root

    def pack(self) -> None:
        """Keep the state as it is now; the guest stands.

        Raises:
            WrongState: when it cannot be read.
        """
        from kvedge.storage.state_archive import NVRAM, TPM, BadState, pack
        from kvedge.storage.state_files import open_state

        self.remove_rest()
        try:
            with hold_directory(self._claim) as claim, open_state(claim) as (variables, tpm):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with open(os.open(self._packed, flags, 0o600), "wb") as target:
                    found = {NVRAM: variables, TPM: tpm}
                    pack({name: file for name, file in found.items() if file is not None}, target.fileno())
        except (OSError, BadState) as error:
            raise WrongState(f"the state of its TPM and UEFI firmware cannot be copied: {error}") from error

    def write(self, volume: str) -> None:
        """Write what was packed to its volume, and have it on the medium.

        Raises:
            OSError: when that fails; or a launcher before this one had not packed it.
        """
        path = self._root + hotplug_path(volume, block=False)
        with open(self._packed, "rb") as source:
            target = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            with open(target, "wb") as image:
                # What an attempt before has left would follow it.
                os.ftruncate(target, 0)
                shutil.copyfileobj(source, image)
                image.flush()
                os.fsync(target)

    def remove_rest(self) -> None:
        """Nothing of it is needed any more."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._packed)
