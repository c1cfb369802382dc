"""Documents as JSON or YAML on standard output.

Used by the verbs. Prints.
"""

from __future__ import annotations

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


def _text_node(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
