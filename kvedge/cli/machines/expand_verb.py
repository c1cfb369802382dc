"""`kvedge expand`: a VM as it is once instance type and preference are worked in, as the server says.

Called by the group. Prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.output import print_document
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand
from kvedge.client.session import Session


@click.command(cls=VerbCommand)
@session_options
@click.option("--vm", default=None, help="A VM of the server.")
@click.option(
    "-f", "--file", "file", type=click.Path(), default=None, help="A manifest of a VM, or - for standard input."
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="The format [yaml].")
def expand(kubeconfig: Path | None, namespace: str | None, vm: str | None, file: str | None, output: str) -> None:
    """Show a VM with its instance type and preference worked in."""
    if (vm is None) == (file is None):
        raise Refused("name either --vm or --file", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    if vm is not None:
        from kvedge.client.subresources import VM, get

        print_document(get(session, VM, vm, "expand-spec"), output)
        return
    print_document(_expand(session, str(file)), output)


def _expand(session: Session, file: str) -> Any:
    from kvedge.client.manifests.manifest_files import read_manifests

    documents = [document for _, document in read_manifests(file)]
    if len(documents) != 1:
        raise Refused(f"{file}: must hold one VirtualMachine, not {len(documents)} objects", Exit.USAGE)
    path = f"/apis/subresources.kubevirt.io/v1/namespaces/{session.namespace}/expand-vm-spec"
    return session.client.request("PUT", path, documents[0])
