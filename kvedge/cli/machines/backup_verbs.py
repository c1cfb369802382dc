"""`kvedge backup add-repository|create|list|restore|delete`: VMs kept outside this box, and brought back.

Called by the group, to which it adds schedules and what keeps repositories up. Prints one line when something was asked
for, and with --wait one for how it ended.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.machines.backup_schedule_verbs import schedule, schedules, unschedule
from kvedge.cli.machines.backup_upkeep_verbs import catalog, prune, show_catalog, test, verify
from kvedge.cli.repository_keys import KEYS, read_key, split_key
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup, vm_argument
from kvedge.cli.wait_options import wait_options

if TYPE_CHECKING:
    from kvedge.client.backups import BackupWait
    from kvedge.client.session import Session

# A store far away answers slowly.
_LIST_SECONDS: Final = 300.0


@click.group(cls=VerbGroup)
def backup() -> None:
    """Backups: VMs with their disks, encrypted, outside this box."""


for _verb in (schedule, schedules, unschedule, prune, verify, test, catalog):
    backup.add_command(_verb)


@backup.command("add-repository")
@click.argument("name")
@session_options
@click.option("--directory", default=None, metavar="PATH", help="A directory of the host, such as a mounted disk.")
@click.option("--claim", default=None, metavar="NAME", help="A claim with a file system.")
@click.option("--url", default=None, help="s3:https://host/bucket/path, rest:https://host/path, sftp:user@host:/path.")
@click.option(
    "--password-file", type=click.Path(path_type=Path), default=None, help="The key of the backups; else one is made."
)
@click.option(
    "--key", "keys", multiple=True, metavar="NAME=FILE", help=f"What opens the place: {', '.join(KEYS)}. Repeatable."
)
def add_repository(
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    directory: str | None,
    claim: str | None,
    url: str | None,
    password_file: Path | None,
    keys: tuple[str, ...],
) -> None:
    """Name a place for backups, and the key that encrypts them."""
    from kvedge.client.backups import Place, new_password
    from kvedge.client.backups import add_repository as make

    if sum(each is not None for each in (directory, claim, url)) != 1:
        raise Refused("one of --directory, --claim and --url must be given", Exit.USAGE)
    if directory is not None and not directory.startswith("/"):
        raise Refused(f"--directory: {directory!r} must begin with /", Exit.USAGE)
    password = new_password() if password_file is None else read_key(password_file).strip()
    if not password:
        raise Refused(f"--password-file: {password_file} is empty", Exit.USAGE)
    given = dict(split_key(word) for word in keys)
    place = Place(url=url or "", claim=claim or "", directory=directory or "", keys=given)
    make(open_session(kubeconfig, namespace), name, place, password)
    click.echo(f"repository {name} created")
    if password_file is None:
        click.echo(f"its key: {password}")
        click.echo("Keep the key where this box is not: nobody can read the backups without it.", err=True)


@backup.command()
@vm_argument("vm")
@click.option("--to", "repository", required=True, metavar="REPOSITORY", help="Where it goes.")
@session_options
@click.option("--snapshot", default="", metavar="NAME", help="Carry this snapshot away, and take none.")
@click.option("--deadline", default=None, metavar="DURATION", help="Give up after so long, such as 8h. [24h]")
@wait_options
def create(
    vm: str,
    repository: str,
    kubeconfig: Path | None,
    namespace: str | None,
    snapshot: str,
    deadline: str | None,
    wait: bool,
    timeout: float,
) -> None:
    """Take a snapshot of a VM, carry it into a repository, and delete the snapshot."""
    from kvedge.client.backups import back_up

    session = open_session(kubeconfig, namespace)
    made = back_up(session, vm, repository, datetime.now(UTC), snapshot=snapshot, deadline=deadline)
    click.echo(f"backup {made.metadata.name} of VM {vm} created")
    if wait:
        done = _wait(session, timeout).wait(made)
        click.echo(f"backup {done.metadata.name} is in {repository}: ID {done.status.backup_id}")


@backup.command("list")
@vm_argument("vm", required=False)
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("--from", "repository", default=None, metavar="REPOSITORY", help="Those that are in it, by its own word.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "name"]), default="table", help="[table]")
def list_(
    vm: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    all_namespaces: bool,
    repository: str | None,
    output: str,
) -> None:
    """Show the backups that this box has made, of one VM or of all; with --from what a repository has."""
    from kvedge.cli.output import print_objects
    from kvedge.client.backups import HEADER, list_backups, make_cells

    session = open_session(kubeconfig, namespace)
    if repository is not None:
        if output == "name":
            raise Refused("-o name: backups in a repository are no objects: choose table, json or yaml", Exit.USAGE)
        show_catalog(session, repository, vm, output, _LIST_SECONDS)
        return
    found = list_backups(session, vm, None if all_namespaces else session.namespace)
    none = "No backups found: `kvedge backup create VM --to REPOSITORY` makes one."
    print_objects(found, output, HEADER, make_cells, with_namespace=all_namespaces, none=none)


@backup.command()
@click.argument("vm")
@click.option("--from", "repository", required=True, metavar="REPOSITORY", help="Where it is.")
@session_options
@click.option("--id", "backup_id", default=None, metavar="ID", help="Which backup; the latest one unless given.")
@click.option("--as", "target", default=None, metavar="NAME", help="Give the VM, or the claim, another name.")
@click.option(
    "--disk", "disks", multiple=True, metavar="NAME", help="This disk alone, as a claim; makes no VM. Repeatable."
)
@click.option("--from-namespace", default=None, metavar="NAME", help="The namespace that the VM was in.")
@click.option("--storage-class", default=None, metavar="NAME", help="The class of its disks.")
@click.option("--live", is_flag=True, help="Start the VM at once from the backup, and copy its disks behind.")
@wait_options
def restore(
    vm: str,
    repository: str,
    kubeconfig: Path | None,
    namespace: str | None,
    backup_id: str | None,
    target: str | None,
    disks: tuple[str, ...],
    from_namespace: str | None,
    storage_class: str | None,
    live: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Make a VM of a backup, on this box or a new one; it does not run until it is started.

    With --live it starts at once, and reads from the backup what is not on its disks yet.

    With --disk NAME a claim is made of that disk of the VM, named VM-NAME-back or by --as.
    """
    from kvedge.client.backups import bring_back

    if target and len(disks) > 1:
        raise Refused("--as names one claim: give --disk once, or leave it out", Exit.USAGE)
    if live and disks:
        raise Refused("--live starts a whole VM: leave out --disk", Exit.USAGE)
    chosen = [(disk, target or f"{vm}-{disk}-back") for disk in disks]
    session = open_session(kubeconfig, namespace)
    made = bring_back(
        session,
        vm,
        repository,
        datetime.now(UTC),
        chosen,
        backupID=backup_id,
        targetName=None if disks else target,
        vmNamespace=from_namespace,
        storageClassName=storage_class,
        live=live or None,
    )
    click.echo(f"restore {made.metadata.name} created")
    if wait:
        done = _wait(session, timeout).wait(made)
        for each in done.status.volumes if disks else ():
            click.echo(f"disk {each.volume_name} is back as claim {each.claim_name}")
        if live and done.runs:
            click.echo(f"VM {target or vm} runs from its backup; its disks are copied behind")
        elif not disks:
            click.echo(f"VM {target or vm} is back; it does not run: kvedge start {target or vm}")


@backup.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@session_options
def delete(names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None) -> None:
    """Delete the records of backups; what is in the repository stays there."""
    from kvedge.resources.types.protection.backups import BackupRun

    session = open_session(kubeconfig, namespace)
    for name in names:
        session.client.delete(BackupRun, session.namespace, name)
        click.echo(f"backup {name} deleted; its data stays in the repository")


def _wait(session: Session, timeout: float) -> BackupWait:
    from kvedge.cli.progress import Progress
    from kvedge.client.backups import BackupWait

    return BackupWait(session, timeout, Progress)
