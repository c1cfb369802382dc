"""`kvedge list`: the VMs and what one wants to know of them at a glance.

Called by the group. Prints.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument
from kvedge.client.session import Session

if TYPE_CHECKING:
    from kvedge.client.vm_rows import VmRow

_COLOURS = {"Running": "green", "Migrating": "green", "Paused": "yellow", "Stopped": None}


@click.command("list", cls=VerbCommand)
@vm_argument("names", nargs=-1, metavar="[NAME]...")
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", default="", help="A label selector, such as app=web.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "name"]),
    default="table",
    help="The format [table].",
)
def list_(
    names: tuple[str, ...],
    kubeconfig: Path | None,
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    output: str,
) -> None:
    """Show the VMs: status, address, node, age, memory, image."""
    session = open_session(kubeconfig, namespace)
    rows = _rows(session, None if all_namespaces else session.namespace, selector, names)
    if output == "name":
        for row in rows:
            click.echo(row.kind_and_name)
    elif output in ("json", "yaml"):
        from kvedge.cli.output import print_document

        print_document([row.document() for row in rows], output)
    elif not rows:
        place = "" if all_namespaces else f" in {session.namespace} namespace"
        click.echo(f"No VMs found{place}: `kvedge launch IMAGE NAME` makes one.", err=True)
    else:
        _print_table(rows, wide=output == "wide", with_namespace=all_namespaces)


def _rows(session: Session, namespace: str | None, selector: str, names: tuple[str, ...]) -> list[VmRow]:
    from kvedge.client.vm_rows import rows_of
    from kvedge.resources.types.vm import VirtualMachine
    from kvedge.resources.types.vmi import VirtualMachineInstance
    from kvedge.runtime.nearest_names import or_nearest

    vms = session.client.list(VirtualMachine, namespace, label_selector=selector)
    vmis = session.client.list(VirtualMachineInstance, namespace)
    rows = rows_of(vms, vmis, datetime.now(UTC), with_bare=not selector)
    known = {row.name for row in rows}
    for name in names:
        if name not in known:
            raise Refused(f'virtual machine "{name}" not found.{or_nearest(name, sorted(known))}', Exit.NOT_FOUND)
    return [row for row in rows if not names or row.name in names]


def _print_table(rows: list[VmRow], *, wide: bool, with_namespace: bool) -> None:
    from kvedge.client.tables import columns
    from kvedge.client.vm_rows import header

    cells = [header(wide=wide, with_namespace=with_namespace)]
    cells += [row.cells(wide=wide, with_namespace=with_namespace) for row in rows]
    lines = columns(cells)
    click.echo(lines[0])
    for row, line in zip(rows, lines[1:], strict=True):
        # click takes the colour away again where no terminal is.
        colour = _COLOURS.get(row.status, "red" if row.is_trouble else None)
        click.echo(line.replace(row.status, click.style(row.status, fg=colour), 1) if colour and row.status else line)
