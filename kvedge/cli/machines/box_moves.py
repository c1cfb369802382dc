"""`kvedge migrate VM --to BOX`: a running VM moves to another box, by the kubeconfigs of both.

Called by the verb. Prints what was begun, and with --wait how it ended.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import warn
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.session import Session, connect


class Destination(NamedTuple):
    """The other box, as its user names it."""

    to: str
    address: str | None
    storage_class: str | None


def move_to_box(session: Session, vm: str, wanted: Destination, timeout: float | None, *, dry_run: bool) -> None:
    """Move it; without `timeout` nobody waits for the end."""
    from kvedge.cli.progress import Progress
    from kvedge.client.boxes.box_move import begin, find_move, resume
    from kvedge.client.boxes.move_wait import wait_until_moved

    target = _open_target(session, wanted.to)
    place = _find_place(target, wanted.address)
    move = None if dry_run else find_move(session, target, vm, place)
    if move is not None:
        resume(move)
        click.echo(f"VM {vm} moves to {move.host} already: it goes on")
    else:
        if dry_run:
            click.echo("Dry Run execution")
        move = begin(session, target, vm, place, storage_class=wanted.storage_class, progress=Progress, dry_run=dry_run)
        click.echo(f"VM {vm} was scheduled to migrate to {move.host}")
    if timeout is None or dry_run:
        return
    click.echo(wait_until_moved(move, timeout, Progress))
    click.echo(f"here it is stopped, and its disks are of before: `kvedge delete vm {vm}`, and its claims, frees them")


def forget_move(session: Session, vm: str, *, delete_claims: bool) -> None:
    """Let it start here again, or await its guest no more."""
    from kvedge.client.boxes.box_move import forget

    done = forget(session, vm, delete_claims=delete_claims)
    click.echo(done or f"VM {vm} has moved to no other box")


def _open_target(session: Session, to: str) -> Session:
    """A session with the other box, in the namespace of this one."""
    if Path(to).is_file():
        found = load_kubeconfigs((Path(to),), None)
    elif "/" in to:
        raise Refused(f"--to {to}: there is no such kubeconfig", Exit.USAGE)
    else:
        found = load_kubeconfigs(session.kubeconfig.paths, to)
    target = connect(found, session.namespace, warn)
    if target.connection.host == session.connection.host:
        raise Refused(f"--to {to}: that is the box on which VM runs", Exit.USAGE)
    return target


def _find_place(target: Session, address: str | None) -> str:
    """HOST:PORT at which this box reaches the other."""
    from kvedge.resources.moves.crossing import CROSSING_PORT

    host = address or urlsplit(target.connection.host).hostname or ""
    try:
        found = ipaddress.ip_address(host)
        is_local = found.is_loopback or found.is_unspecified
        host = f"[{host}]" if found.version == 6 else host
    except ValueError:
        is_local = host in ("", "localhost")
    if is_local:
        raise Refused(
            f"the other box's kubeconfig leads to {host or 'no host'}, at which only that box reaches itself: give"
            " --to-address with its address on the network",
            Exit.USAGE,
        )
    return f"{host}:{CROSSING_PORT}"
