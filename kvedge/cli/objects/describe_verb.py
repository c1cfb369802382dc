"""`kvedge describe`: one object for a reader, with its events.

Called by the group. Prints.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import kind_argument, object_argument
from kvedge.client.discovery import find_kind
from kvedge.client.nearest_object import explain_not_found
from kvedge.client.session import check_name
from kvedge.client.tables import columns
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject, JsonValue


@click.command()
@kind_argument("kind_name", metavar="KIND[/NAME]")
@object_argument("name", "kind_name", required=False)
@session_options
def describe(kind_name: str, name: str | None, kubeconfig: Path | None, namespace: str | None) -> None:
    """Show one object and what happened to it: `kvedge describe vm web`."""
    session = open_session(kubeconfig, namespace)
    kind_name, _, after = kind_name.partition("/")
    name = after or name
    if not name:
        raise Refused("name the object to describe", Exit.USAGE)
    kind = find_kind(session.client, kind_name)
    try:
        document = session.client.request("GET", kind.path(session.namespace, check_name(name)))
    except NotFound as error:
        raise explain_not_found(session, kind, name, error) from error
    metadata = document.pop("metadata")
    document.pop("apiVersion", None)
    document.pop("kind", None)
    for line in _head(metadata) + _tree(document, 0):
        click.echo(line)
    query = {"fieldSelector": f"involvedObject.uid={metadata['uid']}"}
    place = f"/api/v1/namespaces/{metadata['namespace']}/events" if metadata.get("namespace") else "/api/v1/events"
    for line in _events(session.client.request("GET", place, query=query)["items"]):
        click.echo(line)


def _head(metadata: JsonObject) -> list[str]:
    lines = [f"Name:         {metadata['name']}"]
    if metadata.get("namespace"):
        lines.append(f"Namespace:    {metadata['namespace']}")
    for title, key in (("Labels", "labels"), ("Annotations", "annotations")):
        pairs = [f"{name}={value}" for name, value in sorted((metadata.get(key) or {}).items())]
        lines.append(f"{title + ':':<13} {pairs[0] if pairs else '<none>'}")
        lines += [f"{'':<13} {pair}" for pair in pairs[1:]]
    lines.append(f"Created:      {metadata.get('creationTimestamp')}")
    if metadata.get("deletionTimestamp"):
        lines.append(f"Deleting:     since {metadata['deletionTimestamp']}")
    owners = [f"{item['kind']}/{item['name']}" for item in metadata.get("ownerReferences") or ()]
    if owners:
        lines.append(f"Controlled by: {', '.join(owners)}")
    return lines


def _tree(value: JsonValue, depth: int) -> list[str]:
    indent = "  " * depth
    lines: list[str] = []
    for key, item in value.items():
        # A label's key or a file's name stays as it is written.
        title = key[:1].upper() + key[1:] if key.isalnum() else key
        if isinstance(item, dict) and item:
            lines += [f"{indent}{title}:", *_tree(item, depth + 1)]
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            lines.append(f"{indent}{title}:")
            for entry in item:
                inner = _tree(entry, depth + 2)
                lines += [f"{indent}  -{inner[0][len(indent) + 3 :]}" if inner else f"{indent}  -", *inner[1:]]
        elif isinstance(item, list):
            lines.append(f"{indent}{title}: {', '.join(map(str, item))}")
        elif isinstance(item, str) and "\n" in item:
            lines.append(f"{indent}{title}: |")
            lines += [f"{indent}  {line}" for line in item.splitlines()]
        else:
            lines.append(f"{indent}{title}: {item}")
    return lines


def _events(events: list[JsonObject]) -> list[str]:
    if not events:
        return ["Events: <none>"]
    rows = [["TYPE", "REASON", "LAST SEEN", "COUNT", "FROM", "MESSAGE"]]
    for event in sorted(events, key=lambda item: item.get("lastTimestamp") or item.get("eventTime") or ""):
        source = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        last = event.get("lastTimestamp") or event.get("eventTime") or ""
        rows.append(
            [
                event.get("type", ""),
                event.get("reason", ""),
                last,
                str(event.get("count", 1)),
                source,
                event.get("message", ""),
            ]
        )
    return ["Events:"] + [f"  {line}" for line in columns(rows)]
