"""`kvedge get`: objects as a table, YAML, JSON or names, once or watched.

Called by the group. Prints.
"""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.output import render
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import kind_argument, object_argument
from kvedge.client.discovery import find_kind
from kvedge.client.nearest_object import explain_not_found
from kvedge.client.session import Session, check_name
from kvedge.client.tables import TABLE_ACCEPT, columns, table_rows
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind


@click.command()
@kind_argument("kind_name", metavar="KIND[,KIND]...|KIND/NAME")
@object_argument("names", "kind_name", nargs=-1, metavar="[NAME]...")
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", default="", help="A label selector, such as app=web.")
@click.option("--field-selector", default="", help="A field selector, such as metadata.name=web.")
@click.option("-o", "--output", type=click.Choice(["table", "wide", "yaml", "json", "name"]), default="table")
@click.option("-w", "--watch", is_flag=True, help="Go on and print changes.")
def get(
    kind_name: str,
    names: tuple[str, ...],
    kubeconfig: Path | None,
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    output: str,
    watch: bool,
) -> None:
    """Show objects: `kvedge get vm`, `kvedge get vmi/web -o yaml`.

    Several kinds at once: `kvedge get vm,vmi`. All namespaces, and what changes: `kvedge get pods -A -w`.
    """
    session = open_session(kubeconfig, namespace)
    kind_name, _, name = kind_name.partition("/")
    names = (name, *names) if name else names
    kinds = [find_kind(session.client, wanted) for wanted in kind_name.split(",")]
    if watch and len(kinds) > 1:
        raise Refused("--watch follows one kind", Exit.USAGE)
    where = "" if all_namespaces else session.namespace
    query = {"labelSelector": selector, "fieldSelector": field_selector}
    for number, kind in enumerate(kinds):
        request = _Request(session, kind, where, {key: value for key, value in query.items() if value})
        if watch:
            request.follow(names, output)
        elif output in ("table", "wide"):
            if number:
                click.echo()
            request.print_table(names, wide=output == "wide", with_namespace=all_namespaces)
        else:
            request.print_documents(names, output)


class _Request:
    """One question to the server."""

    def __init__(self, session: Session, kind: Kind, namespace: str, query: dict[str, str]) -> None:
        self._session = session
        self._client = session.client
        self._kind = kind
        self._namespace = namespace
        self._query = query

    def print_table(self, names: tuple[str, ...], *, wide: bool, with_namespace: bool) -> None:
        """As kubectl prints it."""
        rows: list[list[str]] = []
        for path in self._paths(names):
            table = self._ask(path, names, TABLE_ACCEPT)
            found = table_rows(table, wide=wide, with_namespace=with_namespace)
            rows += found if not rows else found[1:]
        if len(rows) == 1:
            place = f" in {self._namespace} namespace" if self._namespace and self._kind.namespaced else ""
            click.echo(f"No resources found{place}.", err=True)
            return
        for line in columns(rows):
            click.echo(line)

    def print_documents(self, names: tuple[str, ...], output: str) -> None:
        """Whole objects."""
        found = [self._ask(path, names) for path in self._paths(names)]
        documents = found if names else found[0]["items"]
        for document in documents:
            document.setdefault("apiVersion", self._kind.api_version)
            document.setdefault("kind", self._kind.kind)
        if output == "name":
            for document in documents:
                click.echo(
                    f"{self._kind.kind.lower()}.{self._kind.group}/{document['metadata']['name']}".replace("./", "/")
                )
            return
        click.echo(_render(documents, output, single=len(names) == 1))

    def follow(self, names: tuple[str, ...], output: str) -> None:
        """A table now, then a line for each change."""
        if output not in ("table", "wide") or len(names) > 1:
            raise Refused("--watch prints a table of one object or of all", Exit.USAGE)
        query = self._query | ({"fieldSelector": f"metadata.name={names[0]}"} if names else {})
        path = self._kind.path(self._namespace)
        table = self._client.request("GET", path, query=query, accept=TABLE_ACCEPT)
        with_namespace = not self._namespace and self._kind.namespaced
        rows = table_rows(table, wide=output == "wide", with_namespace=with_namespace)
        widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
        for row in rows:
            click.echo(_align(row, widths))
        query |= {"watch": "true", "resourceVersion": table["metadata"]["resourceVersion"]}
        for line in self._client.lines(path, query, accept=TABLE_ACCEPT).lines():
            event = msgspec.json.decode(line)
            part = event["object"]
            if part.get("kind") != "Table":
                raise Refused(part.get("message", "the watch ended"))
            # Only the first event of a watch carries the columns.
            part["columnDefinitions"] = part.get("columnDefinitions") or table["columnDefinitions"]
            for row in table_rows(part, wide=output == "wide", with_namespace=with_namespace)[1:]:
                click.echo(_align(row, widths))

    def _ask(self, path: str, names: tuple[str, ...], accept: str = "application/json") -> JsonObject:
        try:
            answer: JsonObject = self._client.request("GET", path, query=self._query, accept=accept)
        except NotFound as error:
            if not names:
                raise
            raise explain_not_found(self._session, self._kind, path.rpartition("/")[2], error) from error
        return answer

    def _paths(self, names: tuple[str, ...]) -> list[str]:
        if not names:
            return [self._kind.path(self._namespace)]
        if self._kind.namespaced and not self._namespace:
            raise Refused("a resource cannot be retrieved by name across all namespaces", Exit.USAGE)
        return [self._kind.path(self._namespace, check_name(name)) for name in names]


def _align(row: list[str], widths: list[int]) -> str:
    return "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _render(documents: list[JsonObject], output: str, *, single: bool) -> str:
    whole: JsonObject = documents[0] if single else {"apiVersion": "v1", "kind": "List", "items": documents}
    return render(whole, output)
