"""`kvedge spice`: a guest's screen, sound and USB ports in a SPICE viewer of this computer.

Called by the group. The viewer is remote-viewer, or whatever else opens its files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument

_VIEWER = "remote-viewer"
_LONGEST_WAIT = 3600


@click.command(
    cls=VerbCommand,
    epilog="The annotation kvedge.io/graphics: spice on the VM's template gives its guest SPICE, from its next start.",
)
@vmi_argument("vmi")
@session_options
@click.option("--proxy-only", is_flag=True, help="Start no viewer: print the file for one, and wait for it.")
@click.option("--viewer", default="", help=f"The viewer's program, which gets the file [{_VIEWER}].")
@click.option(
    "--valid-for",
    type=click.IntRange(1, _LONGEST_WAIT),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long the file can be used for: a viewer that comes later finds nothing.",
)
def spice(
    vmi: str, kubeconfig: Path | None, namespace: str | None, proxy_only: bool, viewer: str, valid_for: int
) -> None:
    """Open a guest's screen in a SPICE viewer, with its sound and USB devices."""
    # A viewer that this computer lacks is told of before the guest is asked.
    program = None if proxy_only else _find_viewer(viewer)
    session = open_session(kubeconfig, namespace)
    from kvedge.cli.guests.spice_session import show

    show(session, vmi, program, valid_for)


def _find_viewer(wanted: str) -> str:
    found = shutil.which(wanted or _VIEWER)
    if found is not None:
        return found
    if wanted:
        raise Refused(f"--viewer: {wanted} is not there, or cannot be run", Exit.HOST)
    raise Refused(
        f"could not find {_VIEWER} in $PATH: install it (Debian: apt install virt-viewer), or use --proxy-only and any "
        "viewer that opens its files",
        Exit.HOST,
    )
