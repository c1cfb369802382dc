"""`kvedge events`: what happened, of all objects or of one VM, and what happens from now on.

Called by the group. Prints a line for each.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.since_option import read_since
from kvedge.cli.verb_command import vm_argument


@click.command()
@vm_argument("vm", required=False)
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more happens.")
@click.option("--since", default=None, metavar="DURATION", help="Only what happened within so long, such as 10m or 1h.")
@click.option("--warnings", is_flag=True, help="Only warnings.")
@click.option("-o", "--output", type=click.Choice(["lines", "json"]), default="lines", help="The format [lines].")
def events(
    vm: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    all_namespaces: bool,
    follow: bool,
    since: str | None,
    warnings: bool,
    output: str,
) -> None:
    """Show what happened, of all objects or of one VM: `kvedge events web --follow`."""
    from kvedge.client.events import event_document, event_line, follow_events, is_of_vm, is_recent
    from kvedge.client.session import check_name

    seconds = read_since(since)
    if vm and all_namespaces:
        raise Refused("--all-namespaces: a VM is in one namespace", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    name = check_name(vm) if vm else ""
    found = follow_events(session, None if all_namespaces else session.namespace, follow=follow)
    with contextlib.closing(found):
        for event in found:
            if (name and not is_of_vm(event, name)) or (warnings and event.type != "Warning"):
                continue
            if not is_recent(event, datetime.now(UTC), seconds):
                continue
            if output == "json":
                import msgspec

                click.echo(msgspec.json.encode(event_document(event)))
            else:
                click.echo(event_line(event, with_namespace=all_namespaces))
