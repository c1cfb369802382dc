"""`kvedge show-config`: what the settings of a run would be, and where each comes from.

Called by the group. Reads the settings' sources; prints.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.runtime.settings import setting_facts, trace_settings


@click.command("show-config")
@CONFIG
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="The format [table]."
)
def show_config(config: Path | None, output: str) -> None:
    """Show the settings that the roles would run with, and where each comes from."""
    rows = list(trace_settings(config_path(config), os.environ, {}).rows())
    if output == "table":
        _print_table(rows)
        return
    document: dict[str, Any] = {key: {"value": value, "origin": origin} for key, value, origin in rows}
    if output == "json":
        import json

        click.echo(json.dumps(document, indent=2))
        return
    import yaml

    click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def _print_table(rows: list[tuple[str, str, str]]) -> None:
    # An empty setting gets its value from the host or from other settings, which words tell better.
    words = {facts.key: f"({facts.default})" for facts in setting_facts()}
    table = [("SETTING", "VALUE", "ORIGIN"), *((key, value or words[key], origin) for key, value, origin in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(2)]
    for key, value, origin in table:
        click.echo(f"{key:{widths[0]}}   {value:{widths[1]}}   {origin}")
