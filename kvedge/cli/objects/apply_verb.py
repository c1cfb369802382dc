"""`kvedge apply -f`: manifests become objects, by server-side apply.

Called by the group. Reads files and standard input, prints one line per object. Every document of all files is read
and checked before the first one is sent.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.wait_options import wait_options
from kvedge.client.discovery import list_served_kinds
from kvedge.client.manifests.manifest_files import read_manifests, target_of
from kvedge.client.session import Session
from kvedge.kube.errors import Conflict
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind

_MANAGER: Final = "kvedge"


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(),
    multiple=True,
    required=True,
    help="A file, a directory, or - for standard input.",
)
@session_options
@click.option("--dry-run", is_flag=True, help="Let the server check everything and write nothing.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that somebody else manages.")
@wait_options
def apply(
    files: tuple[str, ...],
    kubeconfig: Path | None,
    namespace: str | None,
    dry_run: bool,
    force_conflicts: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Create or change what manifests describe: `kvedge apply -f vm.yaml`."""
    documents = [item for name in files for item in read_manifests(name)]
    if not documents:
        raise Refused("no objects passed to apply", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    kinds = list_served_kinds(session.client)
    targets = [target_of(session, kinds, source, document) for source, document in documents]
    query = {"fieldManager": _MANAGER} | ({"dryRun": "All"} if dry_run else {})
    query |= {"force": "true"} if force_conflicts else {}
    for kind, document in targets:
        _apply(session, kind, document, query)
    if wait and not dry_run:
        _wait(session, targets, timeout)


def _wait(session: Session, targets: list[tuple[Kind, JsonObject]], timeout: float) -> None:
    """Until the VMs run that are to run, and the VMIs; all within the same time."""
    from kvedge.cli.progress import Progress
    from kvedge.client.vm_wait import VmWait, starts_by_itself

    deadline = time.monotonic() + timeout
    for kind, document in targets:
        if starts_by_itself(kind, document):
            metadata = document["metadata"]
            there = replace(session, namespace=metadata["namespace"])
            waiting = VmWait(there, metadata["name"], max(0.0, deadline - time.monotonic()), Progress)
            click.echo(waiting.wait_until_running())


def _apply(session: Session, kind: Kind, document: JsonObject, query: dict[str, str]) -> None:
    metadata = document["metadata"]
    path = kind.path(metadata.get("namespace", ""), metadata["name"])
    try:
        session.client.request("PATCH", path, document, query, media_type="application/apply-patch+yaml")
    except Conflict as error:
        raise Refused(f"{error.message}; --force-conflicts takes these fields over") from error
    suffix = " (server dry run)" if "dryRun" in query else ""
    group = f".{kind.group}" if kind.group else ""
    click.echo(f"{kind.kind.lower()}{group}/{metadata['name']} serverside-applied{suffix}")
