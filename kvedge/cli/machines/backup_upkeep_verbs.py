"""`kvedge backup prune|verify|test|catalog`: errands in a repository of backups.

Added to the group of `backup_verbs`. Prints one line when something was asked for, and with --wait one for how it
ended.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.machines.keep_options import chosen_rules, keep_options
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.wait_options import wait_options

if TYPE_CHECKING:
    from kvedge.client.session import Session
    from kvedge.resources.types.protection.backup_tasks import BackupTask
    from kvedge.resources.types.protection.backup_tests import BackupTest

T = TypeVar("T", "BackupTask", "BackupTest")


@click.command()
@click.argument("vms", nargs=-1, required=True, metavar="VM...")
@click.option("--from", "repository", required=True, metavar="REPOSITORY", help="Where they are.")
@session_options
@keep_options
@click.option("--id", "ids", multiple=True, metavar="ID", help="Exactly this backup, instead of rules. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Only tell what would go.")
@wait_options
def prune(
    vms: tuple[str, ...],
    repository: str,
    kubeconfig: Path | None,
    namespace: str | None,
    ids: tuple[str, ...],
    dry_run: bool,
    wait: bool,
    timeout: float,
    **keep: int | None,
) -> None:
    """Let old backups of VMs go, by rules or by ID; the last complete one of a VM stays, and what is in use."""
    from kvedge.client.upkeep.backup_tasks import ask_prune

    rules = chosen_rules(keep)
    if bool(rules) == bool(ids):
        raise Refused("what goes: give --keep-… or --id, and not both", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    made = ask_prune(session, vms, repository, datetime.now(UTC), keep=rules, ids=ids, dry_run=dry_run)
    click.echo(f"task {made.metadata.name} created")
    if wait:
        done = _wait(session, made, timeout)
        click.echo(f"{done.status.message}; {done.status.kept or 0} kept")
        for id_ in done.status.removed_ids:
            click.echo(f"{'would go' if dry_run else 'gone'}: {id_}")


@click.command()
@click.argument("name", metavar="REPOSITORY|VM")
@session_options
@click.option("--full", is_flag=True, help="Read all of it, and not the next part.")
@click.option("--parts", type=int, default=None, metavar="N", help="All is read within so many times [10].")
@wait_options
def verify(
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    full: bool,
    parts: int | None,
    wait: bool,
    timeout: float,
) -> None:
    """Read the next part of a repository back, or of those that a VM has backups in, and check it."""
    from kvedge.client.upkeep.backup_tasks import ask_verification, find_places

    if full and parts is not None:
        raise Refused("--full reads all at once: leave --parts out", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    for place in find_places(session, name):
        made = ask_verification(session, place, datetime.now(UTC), full=full, parts=parts)
        click.echo(f"task {made.metadata.name} created")
        if wait:
            click.echo(f"repository {place}: {_wait(session, made, timeout).status.message}")


@click.command()
@click.argument("vm")
@click.option("--from", "repository", required=True, metavar="REPOSITORY", help="Where it is.")
@session_options
@click.option("--id", "backup_id", default="", metavar="ID", help="Which backup; the latest one unless given.")
@click.option("--seconds", type=int, default=None, metavar="N", help="A guest without an agent must run so long [180].")
@click.option("--require-agent", is_flag=True, help="The guest's agent must answer.")
@click.option("--storage-class", default="", metavar="NAME", help="The class of the disks that are made for it.")
@wait_options
def test(
    vm: str,
    repository: str,
    kubeconfig: Path | None,
    namespace: str | None,
    backup_id: str,
    seconds: int | None,
    require_agent: bool,
    storage_class: str,
    wait: bool,
    timeout: float,
) -> None:
    """Boot a backup in a VM without networks, wait for its agent, and remove it again."""
    from kvedge.client.upkeep.backup_tasks import ask_test

    given = {
        "backupID": backup_id,
        "seconds": seconds,
        "requireAgent": require_agent,
        "storageClassName": storage_class,
    }
    session = open_session(kubeconfig, namespace)
    spec = {key: value for key, value in given.items() if value}
    made = ask_test(session, vm, repository, datetime.now(UTC), spec)
    click.echo(f"test {made.metadata.name} created")
    if wait:
        done = _wait(session, made, timeout)
        click.echo(f"backup {done.status.backup_id} of VM {vm}: {done.status.message}")


@click.command()
@click.argument("repository")
@session_options
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="[table]")
@click.option("--timeout", type=float, default=300.0, metavar="SECONDS", help="Wait so long for it [300].")
def catalog(repository: str, kubeconfig: Path | None, namespace: str | None, output: str, timeout: float) -> None:
    """Show what is in a repository itself, also of other boxes; place and key are enough."""
    show_catalog(open_session(kubeconfig, namespace), repository, None, output, timeout)


def show_catalog(session: Session, repository: str, vm: str | None, output: str, timeout: float) -> None:
    """Have a repository read, and print what is in it."""
    from kvedge.client.tables import columns
    from kvedge.client.upkeep.backup_tasks import CATALOG_HEADER, ask_catalog, make_catalog_cells
    from kvedge.resources.types.protection.backup_tasks import BackupTask

    done = _wait(session, ask_catalog(session, repository, datetime.now(UTC)), timeout)
    session.client.delete(BackupTask, session.namespace, done.metadata.name)
    found = [each for each in done.status.backups if vm is None or each.vm == vm]
    if output != "table":
        from kvedge.cli.output import print_document
        from kvedge.resources.codec import encode

        print_document([encode(each) for each in found], output)
    elif not found:
        click.echo("The repository has no backups of VMs.", err=True)
    else:
        for line in columns([CATALOG_HEADER, *map(make_catalog_cells, found)]):
            click.echo(line)
    if done.status.left_out:
        click.echo(f"{done.status.left_out} older ones are not shown.", err=True)


def _wait(session: Session, task: T, timeout: float) -> T:
    from kvedge.cli.progress import Progress
    from kvedge.client.backups import BackupWait

    return BackupWait(session, timeout, Progress).wait(task)
