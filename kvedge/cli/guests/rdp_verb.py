"""`kvedge rdp`: a guest's desktop by RDP, as Windows has it, in a viewer of this computer or behind a local port.

Called by the group. The viewer is FreeRDP, or whatever else connects to a place.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument

# FreeRDP 3 and 2, each for X11 and then for Wayland.
_VIEWERS: Final = ("xfreerdp3", "xfreerdp", "wlfreerdp3", "wlfreerdp")
# Where Windows serves it.
_PORT: Final = 3389


@click.command(
    cls=VerbCommand,
    epilog="In Windows, Settings > System > Remote Desktop switches it on, or an answer file does "
    "(fDenyTSConnections is false, and the firewall's group Remote Desktop).",
)
@vmi_argument("vmi")
@session_options
@click.option("-u", "--user", default="", help="Who logs in, such as Administrator; the viewer asks for the password.")
@click.option(
    "--guest-port",
    type=click.IntRange(1, 65535),
    default=_PORT,
    show_default=True,
    help="The guest's port for RDP.",
)
@click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen for the viewer.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on [a free one].")
@click.option("--proxy-only", is_flag=True, help="Start no viewer: print the port, and wait for any until Ctrl-C.")
@click.option("--viewer", default="", help=f"The viewer's program [{_VIEWERS[0]} or {_VIEWERS[1]}].")
def rdp(
    vmi: str,
    kubeconfig: Path | None,
    namespace: str | None,
    user: str,
    guest_port: int,
    address: str,
    port: int,
    proxy_only: bool,
    viewer: str,
) -> None:
    """Open a guest's desktop in an RDP viewer, as Windows has it."""
    if not user.isprintable():
        raise Refused("--user: a name is one line of text", Exit.USAGE)
    # A viewer that this computer lacks is told of before the guest is asked.
    program = None if proxy_only else _find_viewer(viewer)
    if user and (program is None or not _is_free_rdp(program)):
        raise Refused("--user is told to FreeRDP alone: leave it out, and name the user in the viewer", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    from kvedge.cli.guests.rdp_session import show
    from kvedge.client.streams.port_specs import ForwardedPort

    command = None if program is None else _Command(program, user, f"{session.namespace}/{vmi}").at
    show(session, vmi, ForwardedPort("tcp", port, guest_port, address), command)


class _Command:
    """The argv of a viewer: FreeRDP's options, and for a program that we do not know the place alone."""

    def __init__(self, program: str, user: str, title: str) -> None:
        self._program, self._user, self._title = program, user, title

    def at(self, place: str) -> Sequence[str]:
        if not _is_free_rdp(self._program):
            return [self._program, place]
        who = [f"/u:{self._user}"] if self._user else []
        return [self._program, f"/v:{place}", *who, f"/t:{self._title}", "+clipboard", "/dynamic-resolution"]


def _is_free_rdp(program: str) -> bool:
    return Path(program).name.startswith(("xfreerdp", "wlfreerdp", "sdl-freerdp"))


def _find_viewer(wanted: str) -> str:
    for name in (wanted,) if wanted else _VIEWERS:
        if (found := shutil.which(name)) is not None:
            return found
    if wanted:
        raise Refused(f"--viewer: {wanted} is not there, or cannot be run", Exit.HOST)
    raise Refused(
        f"could not find {_VIEWERS[0]} or {_VIEWERS[1]} in $PATH: install FreeRDP (Debian: apt install freerdp3-x11, on"
        " Debian 12 freerdp2-x11), or use --proxy-only and any viewer",
        Exit.HOST,
    )
