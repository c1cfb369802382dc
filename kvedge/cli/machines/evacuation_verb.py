"""`kvedge evacuate-cancel`: virtctl's verb for a guest that is to leave its node, by the same subresource.

Called by the group. Prints one line when it was done.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument


@click.command("evacuate-cancel", cls=VerbCommand)
@click.argument("kind", metavar="vm|vmi")
@vm_argument("name")
@session_options
@click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
def evacuate_cancel(kind: str, name: str, kubeconfig: Path | None, namespace: str | None, dry_run: bool) -> None:
    """Have a guest stay that an eviction has marked to leave.

    A migration that has begun goes on, and nobody begins another one. The next eviction marks the guest anew.
    """
    from kvedge.client.errors import RefusedError
    from kvedge.client.subresources import VM, VMI, get_object, put, resource_of

    resource = resource_of(kind)
    session = open_session(kubeconfig, namespace)
    word = "VM" if resource == VM else "VMI"
    # The call names the node that its caller has seen: the mark of another eviction stays.
    node = (get_object(session, VMI, name).get("status") or {}).get("nodeName")
    if not node:
        raise RefusedError(f"{word} {session.namespace}/{name} doesn't report Node name")
    options = {"evacuationNodeName": node, "dryRun": ["All"] if dry_run else None}
    put(session, resource, name, "evacuate/cancel", options)
    click.echo(f"{word} {session.namespace}/{name} was canceled evacuation")
