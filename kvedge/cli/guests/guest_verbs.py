"""`kvedge guestosinfo|userlist|fslist`: what a guest's agent says, as virtctl prints it.

Called by the group. Prints JSON, or YAML on request.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kvedge.cli.output import render
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument
from kvedge.client.harmless_text import harmless

_OUTPUT = click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="json", help="The format [json].")


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
@_OUTPUT
def guestosinfo(vmi: str, kubeconfig: Path | None, namespace: str | None, output: str) -> None:
    """Show what a guest's agent says of its operating system."""
    _show("guestosinfo", vmi, kubeconfig, namespace, output)


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
@_OUTPUT
def userlist(vmi: str, kubeconfig: Path | None, namespace: str | None, output: str) -> None:
    """Show who is logged in to a guest."""
    _show("userlist", vmi, kubeconfig, namespace, output)


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
@_OUTPUT
def fslist(vmi: str, kubeconfig: Path | None, namespace: str | None, output: str) -> None:
    """Show a guest's file systems."""
    _show("filesystemlist", vmi, kubeconfig, namespace, output)


def _show(call: str, vmi: str, kubeconfig: Path | None, namespace: str | None, output: str) -> None:
    from kvedge.client.subresources import VMI, get

    text = render(get(open_session(kubeconfig, namespace), VMI, vmi, call), output)
    # The guest's own words: on a terminal nothing in them may be obeyed.
    click.echo(harmless(text.encode()) if sys.stdout.isatty() else text)
