"""Documents as JSON or YAML on standard output, and lists of objects.

Used by the verbs. Prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


def render(document: Any, output: str, *, sort_keys: bool = False) -> str:
    """The text of a document as `json` or `yaml`, without its last line's end."""
    if output == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    import yaml

    class Dumper(yaml.SafeDumper):
        """Text of several lines stands as such, and nothing is abbreviated by anchors."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(str, _text_node)
    return str(yaml.dump(document, Dumper=Dumper, sort_keys=sort_keys, allow_unicode=True)).rstrip("\n")


def print_document(document: Any, output: str, *, sort_keys: bool = False) -> None:
    """Print it."""
    click.echo(render(document, output, sort_keys=sort_keys))


def print_objects(
    found: Sequence[Any],
    output: str,
    header: list[str],
    make_cells: Callable[..., list[str]],
    *,
    with_namespace: bool,
    none: str,
) -> None:
    """Print objects of one kind as a table, as documents or by their names; `none` says what makes the first one."""
    if output == "name":
        for item in found:
            click.echo(f"{item.KIND.kind.lower()}/{item.metadata.name}")
    elif output in ("json", "yaml"):
        from kvedge.resources.codec import encode

        print_document([encode(item) for item in found], output)
    elif not found:
        click.echo(none, err=True)
    else:
        from kvedge.client.tables import columns

        head = (["NAMESPACE"] if with_namespace else []) + header
        for line in columns([head, *(make_cells(item, with_namespace=with_namespace) for item in found)]):
            click.echo(line)


def _text_node(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
