"""`kvedge apply -f`: manifests become objects, by server-side apply.

Called by the group. Reads files and standard input, prints one line per object. Every document of all files is read
and checked before the first one is sent.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.wait_options import wait_options
from kvedge.client.discovery import ServedKind, kind_of_document, served_kinds
from kvedge.client.session import Session, open_session, session_options
from kvedge.kube.errors import Conflict
from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.resources.kinds import Kind

_MANAGER: Final = "kvedge"
# Run strategies with which the controller starts a guest that nobody asked for.
_STARTING: Final = ("Always", "RerunOnFailure", "Once")
_ENDINGS: Final = (".yaml", ".yml", ".json")


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
    kinds = served_kinds(session.client)
    targets = [target_of(session, kinds, source, document) for source, document in documents]
    query = {"fieldManager": _MANAGER} | ({"dryRun": "All"} if dry_run else {})
    query |= {"force": "true"} if force_conflicts else {}
    for kind, document in targets:
        _apply(session, kind, document, query)
    if wait and not dry_run:
        _wait(session, targets, timeout)


def _wait(session: Session, targets: list[tuple[Kind, JsonObject]], timeout: float) -> None:
    """Until the VMs run that are to run, and the VMIs; all within the same time."""
    from kvedge.client.vm_wait import VmWait

    deadline = time.monotonic() + timeout
    for kind, document in targets:
        if runs_when_applied(kind, document):
            metadata = document["metadata"]
            there = dataclasses.replace(session, namespace=metadata["namespace"])
            waiting = VmWait(there, metadata["name"], max(0.0, deadline - time.monotonic()))
            click.echo(waiting.until_running())


def runs_when_applied(kind: Kind, document: JsonObject) -> bool:
    """Whether a manifest is of a guest that starts by itself."""
    if kind.group != "kubevirt.io" or kind.kind not in ("VirtualMachine", "VirtualMachineInstance"):
        return False
    spec = document.get("spec") or {}
    is_vmi = kind.kind == "VirtualMachineInstance"
    return is_vmi or spec.get("running") is True or spec.get("runStrategy") in _STARTING


def read_manifests(name: str) -> Iterator[tuple[str, JsonObject]]:
    """Each document with where it stands; lists are taken apart.

    Raises:
        Refused: for a file that cannot be read or is no YAML.
    """
    import yaml

    for source, text in _texts(name):
        try:
            documents = list(yaml.safe_load_all(text))
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise Refused(f"{source}: is not YAML: {error}") from error
        for document in documents:
            for item in _taken_apart(document):
                if not isinstance(item, dict):
                    raise Refused(f"{source}: holds something that is no object: {str(item)[:60]!r}")
                yield source, item


def _taken_apart(document: JsonValue) -> list[JsonValue]:
    """The documents of a list, the document itself, or none where nothing stands."""
    if document is None:
        return []
    if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        return list(document["items"])
    return [document]


def _texts(name: str) -> Iterator[tuple[str, str]]:
    if name == "-":
        try:
            yield "standard input", sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"standard input: is not UTF-8 text: {error}") from error
        return
    path = Path(name)
    try:
        files = sorted(item for item in path.iterdir() if item.suffix in _ENDINGS) if path.is_dir() else [path]
    except OSError as error:
        raise Refused(f"{path}: cannot be read: {error.strerror}") from error
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except OSError as error:
            raise Refused(f"{file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise Refused(f"{file}: is not UTF-8 text: {error}") from error


def target_of(session: Session, kinds: list[ServedKind], source: str, document: JsonObject) -> tuple[Kind, JsonObject]:
    """The kind of a manifest, and the manifest with the namespace that it goes to.

    Raises:
        Refused: naming where it stands, for one without a kind that is served or without a name.
    """
    try:
        kind = kind_of_document(kinds, document)
    except Refused as refused:
        raise Refused(f"{source}: {refused.text}", refused.code) from refused
    metadata = document.setdefault("metadata", {})
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise Refused(f"{source}: metadata.name: a manifest of a {kind.kind} needs a name")
    if kind.namespaced:
        metadata.setdefault("namespace", session.namespace)
    return kind, document


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
