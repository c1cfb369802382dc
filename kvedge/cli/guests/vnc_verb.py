"""`kvedge vnc`: a guest's screen in a VNC viewer of this computer, behind a local port, or as a picture.

Called by the group. `kvedge vnc screenshot NAME -f FILE` is a verb of its own below it, as in virtctl.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import click

from kvedge.cli.content_file import write_content
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument

_SCREENSHOT = "screenshot"
# The first bytes of every PNG.
_PNG = b"\x89PNG"
_LONGEST_TERM = 24 * 3600


class _VncCommand(VerbCommand):
    """A command of which one first word is a command of its own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == [_SCREENSHOT]:
            return screenshot.make_context(f"{info_name} {_SCREENSHOT}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(),
    required=True,
    help="Where to write the picture (PNG); - is standard output.",
)
@click.option("-m", "--move-cursor", is_flag=True, help="Move the cursor before, to wake the screen up.")
def screenshot(vmi: str, kubeconfig: Path | None, namespace: str | None, path: str, move_cursor: bool) -> None:
    """Save a picture of a guest's screen: `kvedge vnc screenshot web -f web.png`."""
    from kvedge.client.subresources import VMI, get_content

    session = open_session(kubeconfig, namespace)
    picture = get_content(session, VMI, vmi, "vnc/screenshot", {"moveCursor": "true" if move_cursor else "false"})
    if not picture.startswith(_PNG):
        raise Refused("the server's answer is no PNG picture")
    write_content(path, picture)


@click.command(cls=_VncCommand, epilog="`kvedge vnc screenshot NAME -f FILE` saves a picture of the screen instead.")
@vmi_argument("vmi")
@session_options
@click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen for the viewer.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on [a free one].")
@click.option("--proxy-only", is_flag=True, help="Start no viewer: print the port, and wait for one.")
@click.option("--password", is_flag=True, help="With --proxy-only: print a password, which one viewer has to show.")
@click.option(
    "--viewer-file", type=click.Path(), help="Write a file for remote-viewer, with a password for one viewer."
)
@click.option(
    "--valid-for",
    type=click.IntRange(1, _LONGEST_TERM),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="When a session with a password ends, whether a viewer has come or not.",
)
@click.option("--preserve-session", is_flag=True, help="Do not take the screen over from another viewer.")
@click.option("--vnc-type", default="", help="The viewer: tiger, chicken, real or remote-viewer [what is installed].")
@click.option("--vnc-path", default="", help="The viewer's program.")
def vnc(
    vmi: str,
    kubeconfig: Path | None,
    namespace: str | None,
    address: str,
    port: int,
    proxy_only: bool,
    password: bool,
    viewer_file: str | None,
    valid_for: int,
    preserve_session: bool,
    vnc_type: str,
    vnc_path: str,
) -> None:
    """Open a guest's screen in a VNC viewer, or save a picture of it."""
    if password or viewer_file is not None:
        _check_password_options(address, proxy_only=proxy_only, viewer_file=viewer_file, viewer=vnc_type or vnc_path)
        session = open_session(kubeconfig, namespace)
        from kvedge.cli.guests.vnc_password_session import PasswordTerms
        from kvedge.cli.guests.vnc_password_session import show as show_once

        file = Path(viewer_file) if viewer_file is not None else None
        show_once(session, vmi, PasswordTerms((address, port), valid_for, file, preserve_session))
        return
    from kvedge.cli.guests.vnc_viewers import VIEWERS, find_viewer

    if vnc_type and vnc_type not in VIEWERS:
        raise Refused(f"--vnc-type: {vnc_type} is not one of {', '.join(VIEWERS)}", Exit.USAGE)
    # A viewer that this computer lacks is told of before the guest's screen is taken from anybody.
    viewer = None if proxy_only else find_viewer(vnc_type, vnc_path)
    session = open_session(kubeconfig, namespace)
    from kvedge.cli.guests.vnc_session import show

    show(session, vmi, (address, port), viewer, preserve_session=preserve_session)


def _check_password_options(address: str, *, proxy_only: bool, viewer_file: str | None, viewer: str) -> None:
    if not proxy_only and viewer_file is None:
        raise Refused("--password: add --proxy-only, which prints it, or use --viewer-file FILE", Exit.USAGE)
    if viewer:
        raise Refused("--vnc-type and --vnc-path: a session with a password starts no viewer", Exit.USAGE)
    if not _is_loopback(address):
        raise Refused(
            f"--address: {address} is reached from elsewhere, and VNC's password protects nothing on a network: listen "
            "on 127.0.0.1, and reach it by `ssh -L`",
            Exit.USAGE,
        )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
