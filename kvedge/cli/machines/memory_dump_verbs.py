"""`kvedge memory-dump get|remove`: virtctl's verbs for the memory of a running guest.

Called by the group. Prints one line when the request was accepted; `kvedge describe vm VM` shows how far it is.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup, vm_argument


@click.group("memory-dump", cls=VerbGroup)
def memory_dump() -> None:
    """Write a running guest's memory into a claim: `memory-dump get VM`."""


@memory_dump.command()
@vm_argument("vm")
@session_options
@click.option("--claim-name", default=None, help="The claim; without it that of the last dump.")
def get(vm: str, kubeconfig: Path | None, namespace: str | None, claim_name: str | None) -> None:
    """Write the guest's memory into a file of a claim; the guest waits meanwhile."""
    from kvedge.client.subresources import VM, put

    session = open_session(kubeconfig, namespace)
    put(session, VM, vm, "memorydump", {"claimName": claim_name})
    click.echo(f"Successfully submitted memory dump request of VM {vm}")


@memory_dump.command()
@vm_argument("vm")
@session_options
def remove(vm: str, kubeconfig: Path | None, namespace: str | None) -> None:
    """Have the VM let go of the claim of its dumps; what is in it stays."""
    from kvedge.client.subresources import VM, put

    session = open_session(kubeconfig, namespace)
    put(session, VM, vm, "removememorydump")
    click.echo(f"Successfully submitted remove memory dump association of VM {vm}")
