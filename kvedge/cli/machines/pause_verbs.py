"""`kvedge pause|unpause|reset|soft-reboot`: virtctl's verbs for a guest that runs, by the same subresources.

Called by the group. Prints one line when it was done.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument, vmi_argument

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")


@click.command(cls=VerbCommand)
@click.argument("kind", metavar="vm|vmi")
@vm_argument("name")
@session_options
@_DRY_RUN
def pause(kind: str, name: str, kubeconfig: Path | None, namespace: str | None, dry_run: bool) -> None:
    """Stop a guest's CPUs; its memory stays."""
    _on_running(kind, name, kubeconfig, namespace, "pause", dry_run)


@click.command(cls=VerbCommand)
@click.argument("kind", metavar="vm|vmi")
@vm_argument("name")
@session_options
@_DRY_RUN
def unpause(kind: str, name: str, kubeconfig: Path | None, namespace: str | None, dry_run: bool) -> None:
    """Let a paused guest go on."""
    _on_running(kind, name, kubeconfig, namespace, "unpause", dry_run)


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
def reset(vmi: str, kubeconfig: Path | None, namespace: str | None) -> None:
    """Reset a guest at once, as its reset button would."""
    from kvedge.client.subresources import VMI, put

    put(open_session(kubeconfig, namespace), VMI, vmi, "reset")
    click.echo(f"VMI {vmi} was scheduled to reset")


@click.command("soft-reboot", cls=VerbCommand)
@vmi_argument("vmi")
@session_options
def soft_reboot(vmi: str, kubeconfig: Path | None, namespace: str | None) -> None:
    """Ask a guest to reboot, by its agent or by ACPI."""
    from kvedge.client.subresources import VMI, put

    put(open_session(kubeconfig, namespace), VMI, vmi, "softreboot")
    click.echo(f"VMI {vmi} was scheduled to soft-reboot")


def _on_running(kind: str, name: str, kubeconfig: Path | None, namespace: str | None, call: str, dry_run: bool) -> None:
    from kvedge.client.subresources import VM, VMI, get_object, put, resource_of

    resource = resource_of(kind)
    session = open_session(kubeconfig, namespace)
    if resource == VM:
        # A VM that is not there is told apart from one that does not run.
        get_object(session, VM, name)
    if dry_run:
        click.echo("Dry Run execution")
    put(session, VMI, name, call, {"dryRun": ["All"] if dry_run else None})
    click.echo(f"VMI {name} was scheduled to {call}")
