"""`kvedge migrate|migrate-cancel`: virtctl's verbs for moving a running guest; with --wait until it has moved.

Called by the group. Prints one line when the request was accepted, and with --wait one for how it ended.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.machines.box_moves import Destination, forget_move, move_to_box
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument
from kvedge.cli.wait_options import wait_options
from kvedge.client.session import Session

if TYPE_CHECKING:
    from kvedge.client.migrations import MigrationWait

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")


@click.command(cls=VerbCommand)
@vm_argument("vm")
@session_options
@click.option(
    "--node-selector",
    "--addedNodeSelector",
    "selectors",
    multiple=True,
    metavar="KEY=VALUE",
    help="A label that the node must have, besides those that the VM asks for; may be given several times.",
)
@click.option(
    "--with-disks",
    is_flag=True,
    help="Move the disks along that keep the VM on its node, to new claims of the same class and size.",
)
@click.option(
    "--storage-class",
    metavar="CLASS",
    help="Move the disks to new claims of this storage class; on the only node the guest stays where it is.",
)
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=CLASS",
    help="Move the disk of one volume to a new claim of this storage class; may be given several times.",
)
@click.option(
    "--to",
    metavar="BOX",
    help="Move it to another box, with its disks: the path of that box's kubeconfig, or a context of this one.",
)
@click.option("--to-address", metavar="HOST", help="How this box reaches the other; its kubeconfig's server otherwise.")
@click.option("--to-storage-class", metavar="NAME", help="The class of its disks there; the same, or the default one.")
@click.option("--forget", is_flag=True, help="Let a VM start here that moved away; take away one that never came.")
@click.option("--delete-claims", is_flag=True, help="With --forget: delete the claims of one that never came as well.")
@_DRY_RUN
@wait_options
def migrate(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    selectors: tuple[str, ...],
    with_disks: bool,
    storage_class: str | None,
    volumes: tuple[str, ...],
    to: str | None,
    to_address: str | None,
    to_storage_class: str | None,
    forget: bool,
    delete_claims: bool,
    dry_run: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Move a running VM to another node or box, or its disks to another class.

    With --with-disks new claims are made for those of its disks that one node has at a time, and the data moves along.
    The old claims stay, with the data of before. With --storage-class or --volume the new claims are of another class.

    With --to the VM is made on the other box as it is here, and its disks move along. Here it stays, stopped, and does
    not start before --forget says that it may. On the other box --forget takes away what was made there for a guest
    that has not come, as the box that it was to come from is lost. The claims stay, as they may hold the last copy of
    its disks; with --delete-claims they go as well.
    """
    if delete_claims and not forget:
        raise Refused("--delete-claims goes with --forget", Exit.USAGE)
    if forget and dry_run:
        raise Refused("--forget does not go with --dry-run: nothing tells what it would do", Exit.USAGE)
    if forget or to is not None:
        if selectors or with_disks or storage_class or volumes or (forget and to is not None):
            raise Refused("--to and --forget go with none of the others: a VM moves with all its disks", Exit.USAGE)
        session = open_session(kubeconfig, namespace)
        if to is None:
            forget_move(session, vm, delete_claims=delete_claims)
        else:
            wanted = Destination(to, to_address, to_storage_class)
            move_to_box(session, vm, wanted, timeout if wait else None, dry_run=dry_run)
        return
    from kvedge.client.subresources import VM, put

    labels = _read_labels(selectors)
    if labels and with_disks:
        raise Refused("--node-selector does not go with --with-disks: give the VM itself a nodeSelector", Exit.USAGE)
    classes = _read_classes(storage_class, volumes)
    if classes and (labels or with_disks):
        raise Refused("--storage-class and --volume do not go with --with-disks or --node-selector", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    if classes:
        _move_to_classes(session, vm, classes, timeout if wait and not dry_run else None, dry_run=dry_run)
        return
    waiting = _wait(session, vm, timeout) if wait and not dry_run else None
    if dry_run:
        click.echo("Dry Run execution")
    if with_disks:
        _migrate_with_disks(session, vm, waiting, dry_run=dry_run)
        return
    put(session, VM, vm, "migrate", {"addedNodeSelector": labels or None, "dryRun": ["All"] if dry_run else None})
    click.echo(f"VM {vm} was scheduled to migrate")
    if waiting is not None:
        click.echo(waiting.wait_until_moved())


@click.command("migrate-cancel", cls=VerbCommand)
@vm_argument("vm")
@session_options
@_DRY_RUN
@wait_options
def migrate_cancel(
    vm: str, kubeconfig: Path | None, namespace: str | None, dry_run: bool, wait: bool, timeout: float
) -> None:
    """Have a VM stay that is about to move.

    One that moves with its disks gets its old claims back.
    """
    from kvedge.client.disk_moves import put_back
    from kvedge.client.migrations import cancel, find_active, list_migrations
    from kvedge.kube.errors import NotFound

    session = open_session(kubeconfig, namespace)
    active = [each for each in list_migrations(session, vm) if not each.is_final]
    waiting = _wait(session, vm, timeout) if wait and not dry_run and active else None
    if dry_run:
        click.echo("Dry Run execution")
    # First: with the change there, another migration would follow this one.
    dropped = put_back(session, vm, dry_run=dry_run)
    if dropped:
        click.echo(f"VM {vm} keeps its claims; `kvedge delete pvc {' '.join(dropped)}` removes the new ones")
    if active or not dropped:
        migration = active[0] if active else find_active(session, vm)
        # The controller gives up a migration for disks that stay: it may be gone already.
        with contextlib.suppress(*([NotFound] if dropped else [])):
            cancel(session, migration, dry_run=dry_run)
        click.echo(f"VM {vm} was scheduled to migrate-cancel")
    if waiting is not None:
        click.echo(waiting.wait_until_cancelled(active[0]))


def _migrate_with_disks(session: Session, vm: str, waiting: MigrationWait | None, *, dry_run: bool) -> None:
    from kvedge.client.disk_moves import move_disks

    moved = move_disks(session, vm, dry_run=dry_run)
    click.echo(f"VM {vm} was scheduled to migrate with its disks:")
    for line in moved.describe():
        click.echo(line)
    if waiting is not None:
        click.echo(waiting.wait_until_moved())
    if not dry_run:
        click.echo(f"once VM {vm} has moved, {moved.describe_left()}" if waiting is None else moved.describe_left())


def _move_to_classes(
    session: Session, vm: str, classes: dict[str, str], timeout: float | None, *, dry_run: bool
) -> None:
    from kvedge.cli.progress import Progress
    from kvedge.client.disk_moves import move_disks, wait_until_exchanged

    if dry_run:
        click.echo("Dry Run execution")
    moved = move_disks(session, vm, dry_run=dry_run, classes=classes)
    click.echo(f"disks of VM {vm} are to move while it runs:")
    for line in moved.describe():
        click.echo(line)
    if timeout is not None:
        with Progress() as progress:
            wait_until_exchanged(session, moved, timeout, progress)
        click.echo(f"the disks of VM {vm} have moved")
    if not dry_run:
        click.echo(f"once they have moved, {moved.describe_left()}" if timeout is None else moved.describe_left())


def _read_classes(storage_class: str | None, volumes: tuple[str, ...]) -> dict[str, str]:
    """The storage classes that disks move to, by volume; that of all others under the empty name."""
    found = {"": storage_class} if storage_class else {}
    for text in (part for each in volumes for part in each.split(",")):
        name, equals, wanted = text.partition("=")
        if not name or not equals or not wanted:
            raise Refused(f"--volume {text!r}: give NAME=CLASS", Exit.USAGE)
        found[name] = wanted
    return found


def _read_labels(texts: tuple[str, ...]) -> dict[str, str]:
    """Labels of a node; as virtctl, one option may have several, with commas between them."""
    found: dict[str, str] = {}
    for text in (part for each in texts for part in each.split(",")):
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Refused(f"--node-selector {text!r}: give KEY=VALUE", Exit.USAGE)
        found[key] = value
    return found


def _wait(session: Session, vm: str, timeout: float) -> MigrationWait:
    from kvedge.cli.progress import Progress
    from kvedge.client.migrations import MigrationWait

    return MigrationWait(session, vm, timeout, Progress)
