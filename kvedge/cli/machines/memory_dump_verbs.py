"""`kvedge memory-dump get|download|remove`: virtctl's verbs for the memory of a running guest.

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
@click.option("--output", required=True, type=click.Path(path_type=Path), help="The new file: a tar.gz.")
@click.option("--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, help="Seconds for the dump.")
@click.option("--insecure", is_flag=True, help="Trust any certificate of the export's server.")
@click.option("--service-url", default="", metavar="HOST:PORT", help="Where the export's Service is reached.")
@click.option("--port-forward", is_flag=True, hidden=True)
def download(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    output: Path,
    timeout: float,
    insecure: bool,
    service_url: str,
    port_forward: bool,
) -> None:
    """Save the claim with the last dump as a tar.gz, once the dump is whole."""
    from kvedge.cli.machines.export_verbs import save_claim
    from kvedge.cli.progress import Progress
    from kvedge.client.exports.export_download import Way
    from kvedge.client.exports.memory_dumps import wait_for_dump
    from kvedge.client.exports.new_file import check_free

    check_free(output)
    session = open_session(kubeconfig, namespace)
    claim = wait_for_dump(session, vm, timeout, Progress)
    save_claim(session, f"export-{vm}-{claim}", claim, Way(service_url, insecure, 3), output, port_forward=port_forward)
    click.echo("Download finished successfully")


@memory_dump.command()
@vm_argument("vm")
@session_options
def remove(vm: str, kubeconfig: Path | None, namespace: str | None) -> None:
    """Have the VM let go of the claim of its dumps; what is in it stays."""
    from kvedge.client.subresources import VM, put

    session = open_session(kubeconfig, namespace)
    put(session, VM, vm, "removememorydump")
    click.echo(f"Successfully submitted remove memory dump association of VM {vm}")
