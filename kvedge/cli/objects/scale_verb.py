"""`kvedge scale`: how many VMs a set keeps, as `kubectl scale` has it.

Called by the group. Prints one line when the number is written.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import kind_argument, object_argument
from kvedge.client.discovery import find_kind
from kvedge.client.nearest_object import explain_not_found
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import NotFound
from kvedge.resources.kinds import Kind
from kvedge.resources.values.whole_numbers import INT32


@click.command()
@kind_argument("kind_name", metavar="KIND[/NAME]")
@object_argument("name", "kind_name", required=False, metavar="[NAME]")
@session_options
@click.option("--replicas", type=click.IntRange(0, INT32[1]), required=True, help="How many VMs are wanted.")
@click.option("--current-replicas", type=click.IntRange(0), default=None, help="Only when so many are wanted now.")
def scale(
    kind_name: str,
    name: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    replicas: int,
    current_replicas: int | None,
) -> None:
    """Set how many VMs a set keeps: `kvedge scale vmirs/web --replicas 3`."""
    session = open_session(kubeconfig, namespace)
    kind_name, _, after = kind_name.partition("/")
    name = after or name
    if not name:
        raise Refused("name what to scale", Exit.USAGE)
    kind = find_kind(session.client, kind_name)
    _write(session, kind, check_name(name), replicas, current_replicas)
    click.echo(f"{kind.kind.lower()}.{kind.group}/{name} scaled".replace("./", "/"))


def _write(session: Session, kind: Kind, name: str, replicas: int, expected: int | None) -> None:
    path = kind.path(session.namespace, name, "scale")
    try:
        found = session.client.request("GET", path)
    except NotFound as error:
        # A kind without a scale is answered in the same way; the object itself tells which it is.
        _refuse_unscalable(session, kind, name)
        raise explain_not_found(session, kind, name, error) from error
    wanted = found["spec"].get("replicas", 0)
    if expected is not None and wanted != expected:
        raise Refused(f"{wanted} are wanted now, not the {expected} of --current-replicas", Exit.FAILED)
    # With its version: two who scale at the same time do not overwrite each other unseen.
    session.client.request("PUT", path, {**found, "spec": {"replicas": replicas}})


def _refuse_unscalable(session: Session, kind: Kind, name: str) -> None:
    try:
        session.client.request("GET", kind.path(session.namespace, name))
    except NotFound:
        return
    raise Refused(f"{kind.plural} cannot be scaled: vmirs and vmpool can", Exit.USAGE)
