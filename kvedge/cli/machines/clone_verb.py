"""`kvedge clone VM [TARGET]`: another VM like one that is there, or like a snapshot of it.

Called by the group. Prints one line when the clone was asked for, and with --wait one for how it ended.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import complete_snapshots, vm_argument
from kvedge.cli.wait_options import wait_options


@click.command()
@vm_argument("vm")
@click.argument("target", required=False)
@session_options
@click.option(
    "--from-snapshot",
    default=None,
    metavar="NAME",
    shell_complete=complete_snapshots,
    help="Make it of this snapshot of the VM, which may be gone.",
)
@wait_options
def clone(
    vm: str,
    target: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    from_snapshot: str | None,
    wait: bool,
    timeout: float,
) -> None:
    """Make a VM like another one, with disks and addresses of its own; it does not run."""
    from kvedge.client.clones import clone_vm
    from kvedge.client.snapshots import find_snapshot

    session = open_session(kubeconfig, namespace)
    if from_snapshot is not None:
        find_snapshot(session, vm, from_snapshot)
    made = clone_vm(session, vm, target, datetime.now(UTC), from_snapshot)
    named = made.spec.target.name if made.spec.target is not None else ""
    click.echo(f"clone {made.metadata.name} of VM {vm} created; its VM is {named}")
    if wait:
        from kvedge.cli.progress import Progress
        from kvedge.client.snapshots import SnapshotWait

        SnapshotWait(session, timeout, Progress).wait_until_cloned(made)
        click.echo(f"VM {named} is there: `kvedge start {named}` starts it")
