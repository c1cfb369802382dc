"""`kvedge usbredir`: a USB device of this computer becomes a guest's, as with virtctl.

Called by the group. The device is handed over by usbredirect, a program of this computer.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument

_PROGRAM: Final = "usbredirect"
# vendor:product in hexadecimal digits, or bus-device in decimal ones; both as lsusb shows them.
_DEVICE: Final = re.compile(r"[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}|[0-9]{1,3}-[0-9]{1,3}")


@click.command(
    cls=VerbCommand,
    epilog="`lsusb` shows devices: `kvedge usbredir 0951:1666 web` or, by bus and device, `kvedge usbredir 02-03 web`. "
    "The VM needs spec.template.spec.domain.devices.clientPassthrough: {}.",
)
@vmi_argument("names", nargs=-1, metavar="DEVICE VMI")
@session_options
@click.option("--no-launch", is_flag=True, help="Name the VMI alone, start no program: wait for a usbredir client.")
def usbredir(names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None, no_launch: bool) -> None:
    """Hand a USB device of this computer to a guest.

    DEVICE is VENDOR:PRODUCT or BUS-DEVICE, as lsusb shows them.
    """
    if len(names) != 2 - no_launch:
        wanted = "a VMI alone, as its client chooses the device" if no_launch else "a device and a VMI"
        example = "--no-launch web" if no_launch else "0951:1666 web"
        raise Refused(f"name {wanted}: `kvedge usbredir {example}`", Exit.USAGE)
    *device, vmi = names
    program = _find_program(device[0]) if device else ""
    session = open_session(kubeconfig, namespace)
    from kvedge.cli.guests.usbredir_session import redirect

    redirect(session, vmi, "".join(device), program)


def _find_program(device: str) -> str:
    if not _DEVICE.fullmatch(device):
        raise Refused(
            f"{device[:64]!r} is no device: use VENDOR:PRODUCT or BUS-DEVICE, as lsusb shows them", Exit.USAGE
        )
    found = shutil.which(_PROGRAM)
    if found is None:
        raise Refused(f"{_PROGRAM} is not on this computer: install it (Debian: usbredirect)", Exit.HOST)
    return found
