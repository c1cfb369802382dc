"""`kvedge start|stop|restart`: virtctl's verbs, by the same subresources; with --wait until it has come true.

Called by the group. Prints one line when the request was accepted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument
from kvedge.cli.wait_options import wait_options
from kvedge.client.session import Session

if TYPE_CHECKING:
    from kvedge.client.vm_wait import VmWait

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
_FORCE = click.option("--force", is_flag=True, help="Do not wait for the guest; needs --grace-period.")


@click.command(cls=VerbCommand)
@vm_argument("vm")
@session_options
@click.option("--paused", is_flag=True, help="Start it paused.")
@_DRY_RUN
@wait_options
def start(
    vm: str, kubeconfig: Path | None, namespace: str | None, paused: bool, dry_run: bool, wait: bool, timeout: float
) -> None:
    """Start a VM."""
    session = open_session(kubeconfig, namespace)
    waiting = _wait(session, vm, timeout) if wait and not dry_run else None
    _ask(session, vm, "start", {"paused": paused or None}, dry_run)
    if waiting is not None:
        click.echo(waiting.wait_until_running(paused=paused))


@click.command(cls=VerbCommand)
@vm_argument("vm")
@session_options
@_FORCE
@click.option("--grace-period", type=int, default=None, help="Seconds until the guest is killed; needs --force.")
@_DRY_RUN
@wait_options
def stop(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    force: bool,
    grace_period: int | None,
    dry_run: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Shut a VM down."""
    _check_force(force, grace_period)
    session = open_session(kubeconfig, namespace)
    waiting = _wait(session, vm, timeout) if wait and not dry_run else None
    _ask(session, vm, "stop", {"gracePeriod": grace_period}, dry_run)
    if waiting is not None:
        click.echo(waiting.wait_until_stopped())


@click.command(cls=VerbCommand)
@vm_argument("vm")
@session_options
@_FORCE
@click.option("--grace-period", type=int, default=None, help="0 kills the guest; needs --force.")
@_DRY_RUN
@wait_options
def restart(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    force: bool,
    grace_period: int | None,
    dry_run: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Shut a VM down and start it again."""
    _check_force(force, grace_period)
    session = open_session(kubeconfig, namespace)
    waiting = _wait(session, vm, timeout) if wait and not dry_run else None
    _ask(session, vm, "restart", {"gracePeriodSeconds": grace_period}, dry_run)
    if waiting is not None:
        click.echo(waiting.wait_until_running(anew=True))


def _check_force(force: bool, grace_period: int | None) -> None:
    # virtctl's own default, which some write out.
    given = grace_period is not None and grace_period != -1
    if force != given:
        raise Refused(
            "--force and --grace-period go together: must both use --force=true and set --grace-period.", Exit.USAGE
        )


def _ask(session: Session, vm: str, call: str, body: dict[str, object], dry_run: bool) -> None:
    from kvedge.client.subresources import VM, put

    if dry_run:
        click.echo("Dry Run execution")
    put(session, VM, vm, call, {**body, "dryRun": ["All"] if dry_run else None})
    click.echo(f"VM {vm} was scheduled to {call}")


def _wait(session: Session, vm: str, timeout: float) -> VmWait:
    from kvedge.cli.progress import Progress
    from kvedge.client.vm_wait import VmWait

    return VmWait(session, vm, timeout, Progress)
