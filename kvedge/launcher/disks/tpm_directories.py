"""The directories of a TPM's state on a claim that several launchers may have at once: one that counts, and one that
fills while a guest comes.

Called by `lasting_state` for the place, as the guest's user, and by `incoming_guest` when the guest goes on here or is
not wanted. Two swtpms never have one directory: the one of the source keeps its own until it is off, and QEMU brings
all of the state to the one of the target. Which of them counts says a file beside them, which changes once, when the
source is off for good and before the guest runs. A claim without that file has its state in the first directory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from typing import Final

from kvedge.launcher.launcher_errors import WrongState
from kvedge.resources.disks.claim_places import STATE_VOLUME, claim_directory
from kvedge.storage.beneath import hold_directory
from kvedge.storage.state_files import TPM_COMING, TPM_DIRECTORY, TPM_POINTER, TPM_STATE, read_pointer

log = logging.getLogger(__name__)

_NEXT: Final = "swtpm.next"
_MODE: Final = 0o700


def make_tpm_directory(claim: str, incoming: str) -> str:
    """The directory for a TPM's state on the claim at a path: the one that counts, or an empty one when a guest comes
    by the migration `incoming`.

    What earlier migrations have left is removed when a guest starts: nobody else has the claim then.

    Raises:
        OSError: when the claim cannot be written.
    """
    current = _read_current(claim)
    name = f"{TPM_COMING}{incoming}" if incoming else current
    path = f"{claim}/{name}"
    if not incoming:
        _remove_others(claim, current)
    elif name != current and os.path.isdir(path):
        # Of a preparation that was killed: no guest has come yet.
        shutil.rmtree(path)
    os.makedirs(path, mode=_MODE, exist_ok=True)
    return path


def accept_tpm(root: str, incoming: str) -> None:
    """The source is off for good: the state that came is the VM's, and the older one goes. May be repeated.

    Raises:
        WrongState: when no whole state came.
        OSError: when that cannot be made to last.
    """
    claim, name = f"{root}{claim_directory(STATE_VOLUME)}", f"{TPM_COMING}{incoming}"
    if not os.path.isdir(f"{claim}/{name}"):
        return
    if _read_current(claim) != name:
        try:
            _sync(f"{claim}/{name}/{TPM_STATE}")
        except FileNotFoundError:
            raise WrongState("the state of the guest's TPM has not come") from None
        for path in (f"{claim}/{name}/{os.path.dirname(TPM_STATE)}", f"{claim}/{name}"):
            _sync(path)
        with open(f"{claim}/{_NEXT}", "w") as file:
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{claim}/{_NEXT}", f"{claim}/{TPM_POINTER}")
        _sync(claim)
    _remove_others(claim, name)


def drop_tpm(root: str, incoming: str) -> None:
    """The guest is not wanted here, and its swtpm has ended: what came goes, unless it counts. May be repeated."""
    claim, name = f"{root}{claim_directory(STATE_VOLUME)}", f"{TPM_COMING}{incoming}"
    try:
        if _read_current(claim) != name:
            shutil.rmtree(f"{claim}/{name}")
    except FileNotFoundError:
        return
    except OSError as error:
        # It counts for nothing, and goes with the next start.
        log.warning("a TPM's state that is not wanted is left", extra={"facts": {"why": str(error)}})


def _read_current(claim: str) -> str:
    """Raises OSError when it cannot be read: another one would be an older TPM."""
    with hold_directory(claim) as folder:
        return read_pointer(folder)


def _remove_others(claim: str, current: str) -> None:
    for name in os.listdir(claim):
        if name != current and (name == TPM_DIRECTORY or name.startswith(TPM_COMING)):
            try:
                shutil.rmtree(f"{claim}/{name}")
            except OSError as error:
                log.warning("an older state of a TPM is left", extra={"facts": {"name": name, "why": str(error)}})


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(opened)
    finally:
        with contextlib.suppress(OSError):
            os.close(opened)
