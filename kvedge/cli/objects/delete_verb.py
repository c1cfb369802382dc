"""`kvedge delete`: objects by kind and name, or those of manifests, and by default waits until they are gone.

Called by the group. Prints.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.progress import Progress
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import kind_argument, object_argument
from kvedge.client.discovery import find_kind, list_served_kinds
from kvedge.client.manifests.manifest_files import read_manifests, target_of
from kvedge.client.nearest_object import explain_not_found
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind

_LOOK_SECONDS: Final = 0.2


@click.command()
@kind_argument("kind_name", metavar="[KIND[/NAME]]", required=False)
@object_argument("names", "kind_name", nargs=-1, metavar="[NAME]...")
@click.option(
    "-f", "--filename", "files", type=click.Path(), multiple=True, help="Delete what these manifests describe."
)
@session_options
@click.option("--grace-period", type=int, default=None, help="Seconds, instead of the object's own.")
@click.option("--cascade", type=click.Choice(["background", "foreground", "orphan"]), default="background")
@click.option("--ignore-not-found", is_flag=True, help="What is not there is no failure.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is gone.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="How many seconds to wait.")
def delete(
    kind_name: str | None,
    names: tuple[str, ...],
    files: tuple[str, ...],
    kubeconfig: Path | None,
    namespace: str | None,
    grace_period: int | None,
    cascade: str,
    ignore_not_found: bool,
    wait: bool,
    timeout: float,
) -> None:
    """Delete objects: `kvedge delete vm web`, `kvedge delete -f vm.yaml`."""
    session = open_session(kubeconfig, namespace)
    options: dict[str, object] = {"propagationPolicy": cascade.capitalize()}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    deadline = time.monotonic() + timeout
    deleted = []
    missing = []
    for kind, path, name in _targets(session, kind_name, names, files):
        try:
            answer = session.client.request("DELETE", path, options)
        except NotFound as error:
            # The others go all the same, as with kubectl.
            missing += [] if ignore_not_found else [explain_not_found(session, kind, name, error).text]
            continue
        click.echo(f'{kind.kind.lower()} "{name}" deleted')
        deleted.append((path, name, _uid(answer)))
    if wait:
        for path, name, uid in deleted:
            _wait_gone(session, path, name, uid, deadline)
    if missing:
        raise Refused("\n".join(missing), Exit.NOT_FOUND)


def _targets(
    session: Session, kind_name: str | None, names: tuple[str, ...], files: tuple[str, ...]
) -> list[tuple[Kind, str, str]]:
    if files:
        kinds = list_served_kinds(session.client)
        found = []
        for name in files:
            for source, document in read_manifests(name):
                kind, whole = target_of(session, kinds, source, document)
                metadata = whole["metadata"]
                found.append((kind, kind.path(metadata.get("namespace", ""), metadata["name"]), metadata["name"]))
        return found
    if kind_name is None:
        raise Refused("name a kind and a name, or a file with -f", Exit.USAGE)
    kind_name, _, name = kind_name.partition("/")
    names = (name, *names) if name else names
    if not names:
        raise Refused("name what to delete", Exit.USAGE)
    kind = find_kind(session.client, kind_name)
    return [(kind, kind.path(session.namespace, check_name(name)), name) for name in names]


def _uid(answer: object) -> str:
    if not isinstance(answer, dict):
        return ""
    if answer.get("kind") == "Status":
        return str(answer.get("details", {}).get("uid", ""))
    return str(answer.get("metadata", {}).get("uid", ""))


def _wait_gone(session: Session, path: str, name: str, uid: str, deadline: float) -> None:
    with Progress() as progress:
        while True:
            try:
                present = session.client.request("GET", path)
            except NotFound:
                return
            if uid and present["metadata"]["uid"] != uid:
                return
            held = ", ".join(present["metadata"].get("finalizers") or ()) or "nobody"
            if time.monotonic() > deadline:
                told = f"timed out waiting for {name} to go: held by {held}"
                raise Refused(f"{told}{_warnings(session, present)}", Exit.TIMED_OUT)
            progress.show(f"{name}: held by {held}")
            time.sleep(_LOOK_SECONDS)


def _warnings(session: Session, present: JsonObject) -> str:
    """The newest ones about a VM or VMI that stays."""
    from kvedge.client.vm_warnings import read_newest_warnings

    if present.get("kind") not in ("VirtualMachine", "VirtualMachineInstance"):
        return ""
    metadata = present["metadata"]
    return read_newest_warnings(session.client, metadata["namespace"], metadata["name"])
