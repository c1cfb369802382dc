"""`kvedge trace`: the time line of a VM's last start, on one screen.

Called by the group. Prints.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.output import print_document
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
@click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"]), default=None, help="Print the steps as a document."
)
def trace(vmi: str, kubeconfig: Path | None, namespace: str | None, output: str | None) -> None:
    """Show how a VM's last start went: each step, to milliseconds.

    \b
    Steps whose time begins with ~ are told by objects, which keep whole seconds.
    """
    from kvedge.client.traces.start_trace import read_trace
    from kvedge.client.traces.trace_screen import render_screen

    reached = read_trace(open_session(kubeconfig, namespace), vmi)
    if output:
        print_document({"kind": "StartTrace", "steps": [item.document() for item in reached]}, output)
        return
    for line in render_screen(reached):
        click.echo(line)
