"""`kvedge snapshot create|list|restore|delete`, and its schedules: VMs as they were at one time.

Called by the group. Prints one line when something was asked for, and with --wait one for how it ended.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.machines.schedule_verbs import schedule, schedules, unschedule
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup, snapshot_argument, vm_argument
from kvedge.cli.wait_options import wait_options

if TYPE_CHECKING:
    from kvedge.client.session import Session
    from kvedge.client.snapshots import SnapshotWait


@click.group(cls=VerbGroup)
def snapshot() -> None:
    """Snapshots: VMs with their disks, as they were at one time."""


for _verb in (schedule, schedules, unschedule):
    snapshot.add_command(_verb)


@snapshot.command()
@vm_argument("vm")
@click.argument("name", required=False)
@session_options
@click.option("--retain", is_flag=True, help="Keep what it holds when the snapshot is deleted.")
@click.option("--memory", is_flag=True, help="With the guest's memory: it stands while that is written.")
@click.option("--memory-class", default=None, metavar="NAME", help="StorageClass of the memory [of the first disk].")
@click.option("--failure-deadline", default=None, metavar="DURATION", help="Give up after so long, such as 30m.")
@wait_options
def create(
    vm: str,
    name: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    retain: bool,
    memory: bool,
    memory_class: str | None,
    failure_deadline: str | None,
    wait: bool,
    timeout: float,
) -> None:
    """Take a snapshot of a VM: while it runs, or of a stopped one, which stays stopped until its disks are copied."""
    from kvedge.client.snapshots import name_snapshot, take_snapshot

    if memory_class is not None and not memory:
        raise Refused("--memory-class: the snapshot has no memory; add --memory, or leave it out", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    named = name or name_snapshot(vm, datetime.now(UTC))
    made = take_snapshot(
        session, vm, named, retain=retain, deadline=failure_deadline, memory=memory, memory_class=memory_class
    )
    click.echo(f"snapshot {named} of VM {vm} created")
    if wait:
        _wait(session, timeout).wait_until_ready(made)
        click.echo(f"snapshot {named} is ready")


@snapshot.command("list")
@vm_argument("vm", required=False)
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "name"]), default="table", help="[table]")
def list_(vm: str | None, kubeconfig: Path | None, namespace: str | None, all_namespaces: bool, output: str) -> None:
    """Show the snapshots, of one VM or of all: whether each can be restored, and what it waits for."""
    from kvedge.cli.output import print_objects
    from kvedge.client.snapshots import HEADER, list_snapshots, make_cells

    session = open_session(kubeconfig, namespace)
    found = list_snapshots(session, vm, None if all_namespaces else session.namespace)
    none = "No snapshots found: `kvedge snapshot create VM` takes one."
    print_objects(found, output, HEADER, make_cells, with_namespace=all_namespaces, none=none)


@snapshot.command()
@vm_argument("vm")
@snapshot_argument("name")
@session_options
@click.option("--into", default=None, metavar="NAME", help="Make a new VM of this name, which does not run.")
@click.option("--stop", is_flag=True, help="Shut the VM down where it runs.")
@click.option("--in-place", is_flag=True, help="Into the claims that the VM has, under their names.")
@click.option("--without-memory", is_flag=True, help="Boot the VM, though the snapshot has the guest's memory.")
@wait_options
def restore(
    vm: str,
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    into: str | None,
    stop: bool,
    in_place: bool,
    without_memory: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Put a snapshot back into its stopped VM, with new disks; the snapshot stays."""
    from kvedge.client.snapshots import find_snapshot, restore_snapshot

    if into is not None and stop:
        raise Refused("--stop: a new VM does not run; leave it out, or leave --into out", Exit.USAGE)
    if into is not None and in_place:
        raise Refused("--in-place: a new VM has no claims yet; leave it out, or leave --into out", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    found = find_snapshot(session, vm, name)
    target = into or vm
    made = restore_snapshot(
        session, found, target, datetime.now(UTC), stop=stop, in_place=in_place, memory=not without_memory
    )
    click.echo(f"restore {made.metadata.name} of snapshot {name} created")
    if wait:
        _wait(session, timeout).wait_until_restored(made)
        click.echo(f"VM {target} has the disks of snapshot {name}")


@snapshot.command()
@vm_argument("vm")
@snapshot_argument("names", nargs=-1, required=True, metavar="NAME...")
@session_options
def delete(vm: str, names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None) -> None:
    """Delete snapshots of a VM, with what they hold."""
    from kvedge.client.snapshots import find_snapshot
    from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot

    session = open_session(kubeconfig, namespace)
    for name in names:
        find_snapshot(session, vm, name)
        session.client.delete(VirtualMachineSnapshot, session.namespace, name)
        click.echo(f"snapshot {name} deleted")


def _wait(session: Session, timeout: float) -> SnapshotWait:
    from kvedge.cli.progress import Progress
    from kvedge.client.snapshots import SnapshotWait

    return SnapshotWait(session, timeout, Progress)
