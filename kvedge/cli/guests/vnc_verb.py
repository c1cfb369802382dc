"""`kvedge vnc`: a guest's screen in a VNC viewer of this computer, behind a local port, or as a picture.

Called by the group. `kvedge vnc screenshot NAME -f FILE` is a verb of its own below it, as in virtctl.
"""

from __future__ import annotations

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
    preserve_session: bool,
    vnc_type: str,
    vnc_path: str,
) -> None:
    """Open a guest's screen in a VNC viewer, or save a picture of it."""
    from kvedge.cli.guests.vnc_viewers import VIEWERS, find_viewer

    if vnc_type and vnc_type not in VIEWERS:
        raise Refused(f"--vnc-type: {vnc_type} is not one of {', '.join(VIEWERS)}", Exit.USAGE)
    # A viewer that this computer lacks is told of before the guest's screen is taken from anybody.
    viewer = None if proxy_only else find_viewer(vnc_type, vnc_path)
    session = open_session(kubeconfig, namespace)
    from kvedge.cli.guests.vnc_session import show

    show(session, vmi, (address, port), viewer, preserve_session=preserve_session)
