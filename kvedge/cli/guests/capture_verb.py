"""`kvedge capture`: frames of one of a guest's interfaces, as a pcap file.

Called by the group. Writes the file, prints.
"""

from __future__ import annotations

import math
from pathlib import Path

import click

from kvedge.cli.content_file import write_content
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
@click.option("--interface", default="", help="Of the VM's interfaces, by name [the first].")
@click.option("-o", "--output", "path", required=True, help="The file to write; `-` for standard output.")
@click.option("--size", default="10Mi", help="At most so large, up to 16Mi [10Mi].")
@click.option("--duration", default="10s", help="For so long, up to 50s [10s].")
def capture(
    vmi: str, kubeconfig: Path | None, namespace: str | None, interface: str, path: str, size: str, duration: str
) -> None:
    """Record what passes a guest's interface, for Wireshark or tcpdump.

    \b
    `kvedge capture web -o web.pcap`; it ends after --duration, or sooner when the file has --size.
    """
    from kvedge.client.subresources import VMI, get_content
    from kvedge.resources.values.durations import parse_duration
    from kvedge.resources.values.quantities import parse_bytes

    try:
        wanted = {"bytes": str(parse_bytes(size)), "seconds": str(math.ceil(parse_duration(duration)))}
    except ValueError as error:
        raise Refused(f"--size or --duration: {error}; write them as 10Mi and 10s", Exit.USAGE) from error
    if interface:
        wanted["interface"] = interface
    frames = get_content(open_session(kubeconfig, namespace), VMI, vmi, "network/capture", wanted)
    if write_content(path, frames):
        click.echo(f"{path}: {len(frames)} bytes", err=True)
