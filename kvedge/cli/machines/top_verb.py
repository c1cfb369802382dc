"""`kvedge top`: what each VM uses of CPUs, memory, disks and networks, and what one has used.

Called by the group. Prints; asks the server twice, and with --watch until Ctrl-C.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand

if TYPE_CHECKING:
    from kvedge.client.session import Session
    from kvedge.client.usage.guest_usage import GuestUse, Look

# What makes sense for looks alone, by parameter.
_OF_LOOKS: Final = {
    "all_namespaces": "--all-namespaces",
    "sort": "--sort",
    "interval": "--interval",
    "watch": "--watch",
}


@click.command(cls=VerbCommand)
@session_options
@click.argument("vm", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option(
    "--sort",
    type=click.Choice(["cpu", "memory", "disk", "network", "name"]),
    default="cpu",
    help="What uses most of it comes first [cpu].",
)
@click.option("--interval", type=click.FloatRange(1, 3600), default=2.0, help="Seconds between two looks [2].")
@click.option(
    "--history",
    type=click.Choice(["hour", "day", "month"]),
    help="What VM has used since then, as its node has kept it.",
)
@click.option("-w", "--watch", is_flag=True, help="Look on, until Ctrl-C.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="The format [table]."
)
def top(
    kubeconfig: Path | None,
    namespace: str | None,
    vm: str | None,
    all_namespaces: bool,
    sort: str,
    interval: float,
    history: str | None,
    watch: bool,
    output: str,
) -> None:
    """Show what each VM uses of CPUs, memory, disks and networks.

    CPU is in hundredths of one, disks and networks in bytes a second. It needs the right to list
    metrics.subresources.kubevirt.io, which reads all namespaces' guests. With --history only the right to get
    virtualmachineinstances/usage is needed, which `view` has.
    """
    from kvedge.client.errors import UsageError
    from kvedge.client.usage.guest_usage import compare, look, order

    if history and not vm:
        raise UsageError("--history: name the VM: kvedge top VM --history day")
    if history:
        _check_alone(click.get_current_context())
    session = open_session(kubeconfig, namespace)
    if history and vm:
        _print_history(session, vm, history, output)
        return
    before = look(session)
    while True:
        time.sleep(interval)
        after = look(session)
        uses = [use for use in compare(before, after) if all_namespaces or use.namespace == session.namespace]
        uses = [use for use in uses if vm in (None, use.name)]
        _print(order(uses, sort), after, output, with_namespace=all_namespaces, clear=watch)
        if not watch:
            return
        before = after


def _check_alone(context: click.Context) -> None:
    """A history is read once, of one VM: what is for looks at several would be ignored."""
    from kvedge.client.errors import UsageError

    for name, flag in _OF_LOOKS.items():
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise UsageError(f"--history and {flag} exclude each other")


def _print_history(session: Session, vm: str, span: str, output: str) -> None:
    from kvedge.cli.output import print_document
    from kvedge.client.tables import columns
    from kvedge.client.usage.usage_history import describe_span, make_history_cells, read_history
    from kvedge.resources.codec import encode

    history = read_history(session, session.namespace, vm, span)
    if output != "table":
        print_document(encode(history), output)
        return
    cells = make_history_cells(history)
    for line in columns(cells):
        click.echo(line)
    click.echo(describe_span(history) if len(cells) > 1 else "Nothing is kept of it yet.", err=True)


def _print(uses: list[GuestUse], seen: Look, output: str, *, with_namespace: bool, clear: bool) -> None:
    from kvedge.cli.output import print_document
    from kvedge.client.tables import columns
    from kvedge.client.usage.guest_usage import make_cells

    if output != "table":
        print_document([use.document() for use in uses], output)
        return
    if clear:
        # Where a terminal is.
        click.clear()
    for line in columns(make_cells(uses, with_namespace=with_namespace)):
        click.echo(line)
    if not uses:
        click.echo("No VM runs here.", err=True)
    for node in seen.silent_nodes:
        click.echo(f"node {node} does not answer: its VMs are not shown as they are", err=True)
