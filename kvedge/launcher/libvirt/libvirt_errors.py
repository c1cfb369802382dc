"""libvirt's errors, as those of the launcher.

Part of the door to libvirt; used by `libvirt_session` and what it reads with.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any, Final

import libvirt

from kvedge.launcher.launcher_errors import (
    BadRequest,
    DiskFull,
    DomainMissing,
    LauncherError,
    LibvirtFailed,
    Unanswered,
    WrongState,
)

# Of libvirt's words, which go into messages and logs.
_LONGEST_DETAIL: Final = 1024

_MISSING: Final = {libvirt.VIR_ERR_NO_DOMAIN}
_WRONG_STATE: Final = {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_DENIED}
# The agent took its time, said by libvirt from 11.2 on; the name is missing where an older one was built against.
_AGENT_COMMAND_TIMEOUT: Final = 112
_UNANSWERED: Final = {
    _AGENT_COMMAND_TIMEOUT,
    libvirt.VIR_ERR_OPERATION_TIMEOUT,
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    libvirt.VIR_ERR_AGENT_UNSYNCED,
    libvirt.VIR_ERR_NO_CONNECT,
}
# Said of the domain's document itself: no second try can help.
_REFUSED: Final = {
    libvirt.VIR_ERR_XML_ERROR,
    libvirt.VIR_ERR_XML_DETAIL,
    libvirt.VIR_ERR_XML_INVALID_SCHEMA,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    libvirt.VIR_ERR_NO_SUPPORT,
    libvirt.VIR_ERR_OS_TYPE,
}


@contextlib.contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        raise _launcher_error(doing, error) from error


def _launcher_error(doing: str, error: Any) -> LauncherError:
    # It may quote the guest's agent, or QEMU.
    code, detail = error.get_error_code(), _cut(error.get_error_message() or str(error))
    if code in _MISSING:
        return DomainMissing(detail)
    if code in _WRONG_STATE:
        return WrongState(f"{doing}: {detail}")
    if code in _UNANSWERED:
        return Unanswered(f"{doing}: {detail}")
    if code in _REFUSED:
        return BadRequest("spec.domain", f"libvirt refuses it: {detail}")
    if code == libvirt.VIR_ERR_SYSTEM_ERROR and error.get_int1() == errno.ENOSPC:
        return DiskFull("the domain", detail)
    return LibvirtFailed(doing, code, error.get_error_domain(), detail)


def _cut(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:_LONGEST_DETAIL])
