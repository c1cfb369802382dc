"""Where the variables of UEFI and what is in a TPM lie on the claim that keeps them, and the files that count.

Called by the launcher, for its own VM, and by the worker that copies the claim of a stopped one. Imports nothing but
the standard library and `beneath`. What a claim holds comes from others: no link is followed, and what is listed is
bounded.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

from kvedge.storage.beneath import hold_open_beneath, open_regular

NVRAM_DIRECTORY: Final = "nvram"
VARIABLES: Final = "_VARS.fd"
# The TPM's directory at first, and how those are called that a migration has filled.
TPM_DIRECTORY: Final = "swtpm"
TPM_COMING: Final = "swtpm-"
# It says which of them counts.
TPM_POINTER: Final = "swtpm.current"
# What libvirt and swtpm make of a TPM 2.0 in its directory.
TPM_STATE: Final = "tpm2/tpm2-00.permall"
_LONGEST: Final = 256
_MOST_LISTED: Final = 256


@contextlib.contextmanager
def open_state(claim: int) -> Iterator[tuple[int | None, int | None]]:
    """The variables and the TPM's state beneath the directory of a claim, opened; None for what there is not.

    Raises:
        OSError: when one cannot be read, or is no file.
    """
    with contextlib.ExitStack() as stack:

        def hold(path: str | None) -> int | None:
            if path is None:
                return None
            try:
                found = open_regular(claim, path)
            except FileNotFoundError:
                return None
            stack.callback(os.close, found)
            return found

        yield hold(_find_variables(claim)), hold(f"{read_pointer(claim)}/{TPM_STATE}")


def has_state(claim: int) -> bool:
    """Whether a claim looks like one that keeps a VM's state. Raises OSError."""
    for name in (NVRAM_DIRECTORY, TPM_DIRECTORY, TPM_POINTER):
        with contextlib.suppress(FileNotFoundError), hold_open_beneath(claim, name, os.O_PATH):
            return True
    return False


def read_pointer(claim: int) -> str:
    """The TPM's directory that counts. Raises OSError when it cannot be read: another one would be an older TPM."""
    try:
        pointer = open_regular(claim, TPM_POINTER)
    except FileNotFoundError:
        return TPM_DIRECTORY
    try:
        name = os.read(pointer, _LONGEST).decode(errors="replace")
    finally:
        os.close(pointer)
    if not name.startswith(TPM_COMING) or "/" in name:
        raise OSError(errno.EINVAL, f"{TPM_POINTER} names no directory: {name!r}")
    return name


def _find_variables(claim: int) -> str | None:
    """The file of UEFI's variables; the one written last, where a claim was another VM's before."""
    try:
        with (
            hold_open_beneath(claim, NVRAM_DIRECTORY, os.O_RDONLY | os.O_DIRECTORY) as folder,
            os.scandir(folder) as it,
        ):
            found = [
                (each.stat(follow_symlinks=False).st_mtime_ns, each.name)
                for each in islice(it, _MOST_LISTED)
                if each.name.endswith(VARIABLES)
            ]
    except FileNotFoundError:
        return None
    return f"{NVRAM_DIRECTORY}/{max(found)[1]}" if found else None
