"""`kvedge objectgraph`: virtctl's verb for the objects that a VM names, by the same subresource.

Called by the group. Prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.output import print_document
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument


@click.command("objectgraph", cls=VerbCommand)
@vm_argument("name")
@session_options
@click.option("--vmi", "of_run", is_flag=True, help="Begin with the VMI instead of the VM.")
@click.option("--exclude-optional", is_flag=True, help="Leave out what the VM can be made anew without.")
@click.option(
    "--selector",
    "selectors",
    multiple=True,
    metavar="LABEL=VALUE[,…]",
    help="Only nodes with these labels, such as kubevirt.io/dependency-type=storage.",
)
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="json", help="The format [json].")
def objectgraph(
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    of_run: bool,
    exclude_optional: bool,
    selectors: Sequence[str],
    output: str,
) -> None:
    """Show the objects that a VM names, as a tree.

    Its claims, secrets, networks, instance type and preference, and its run with the Pod.
    """
    from kvedge.client.subresources import VM, VMI, get

    options = {
        "includeOptionalNodes": not exclude_optional,
        "labelSelector": {"matchLabels": _read_labels(selectors)} if selectors else None,
    }
    session = open_session(kubeconfig, namespace)
    print_document(get(session, VMI if of_run else VM, name, "objectgraph", options), output)


def _read_labels(selectors: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in ",".join(selectors).split(","):
        label, equals, value = pair.partition("=")
        if not label or not equals:
            raise Refused(f"--selector {pair}: write LABEL=VALUE", Exit.USAGE)
        found[label] = value
    return found
