"""`kvedge snapshot schedule|schedules|unschedule`: snapshots that are taken again and again.

Added to the group of `snapshot_verbs`. Prints one line for what was done.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import vm_argument


@click.command()
@vm_argument("vm")
@session_options
@click.option("--every", required=True, metavar="DURATION", help="How often, such as 1h or 30m.")
@click.option("--keep", type=click.IntRange(1, 1000), default=24, help="How many complete ones stay [24].")
@click.option("--name", default=None, help="The schedule's name [the VM and --every].")
def schedule(vm: str, kubeconfig: Path | None, namespace: str | None, every: str, keep: int, name: str | None) -> None:
    """Take a snapshot of a VM again and again, and delete old ones; the first is taken at once."""
    from kvedge.client.schedules import schedule_snapshots

    session = open_session(kubeconfig, namespace)
    made = schedule_snapshots(session, vm, name or f"{vm}-{every}", every, keep)
    click.echo(f"schedule {made.metadata.name}: a snapshot of VM {vm} every {every}, {keep} are kept")


@click.command()
@vm_argument("vm", required=False)
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
def schedules(vm: str | None, kubeconfig: Path | None, namespace: str | None, all_namespaces: bool) -> None:
    """Show the snapshot schedules, of one VM or of all, and what is wrong with each."""
    from kvedge.client.schedules import HEADER, list_schedules, make_cells
    from kvedge.client.tables import columns

    session = open_session(kubeconfig, namespace)
    found = list_schedules(session, vm, None if all_namespaces else session.namespace)
    if not found:
        click.echo("No schedules found: `kvedge snapshot schedule VM --every 1h` makes one.", err=True)
        return
    header = (["NAMESPACE"] if all_namespaces else []) + HEADER
    for line in columns([header, *(make_cells(item, with_namespace=all_namespaces) for item in found)]):
        click.echo(line)


@click.command()
@vm_argument("vm")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@session_options
def unschedule(vm: str, names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None) -> None:
    """Delete schedules of a VM, all unless some are named; what they have taken stays."""
    from kvedge.client.schedules import delete_schedules

    for name in delete_schedules(open_session(kubeconfig, namespace), vm, names):
        click.echo(f"schedule {name} deleted; its snapshots stay")
