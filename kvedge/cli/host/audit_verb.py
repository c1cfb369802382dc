"""`kvedge audit`: who did what on this box.

Called by the group, as root. Reads the files of the audit log; prints.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.since_option import read_since

if TYPE_CHECKING:
    from kvedge.resources.codec import JsonObject


@click.command()
@CONFIG
@click.option("--data-dir", default=None, help="The data directory, when it is not the configured one.")
@click.option("--since", default=None, metavar="DURATION", help="Only what came in within so long, such as 10m or 1h.")
@click.option("--user", default=None, help="Only what this user did.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The format [table].")
def audit(config: Path | None, data_dir: str | None, since: str | None, user: str | None, output: str) -> None:
    """Show who did what on this box: user, verb, object, outcome."""
    from kvedge.client.harmless_text import harmless
    from kvedge.runtime.settings import load_settings
    from kvedge.standalone.apiserver.audit_log import FOLDER, read_audit

    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    seconds = read_since(since)
    now = datetime.now(UTC)
    try:
        for event in read_audit(settings.state_path / FOLDER):
            if _is_wanted(event, user, seconds, now):
                text = _line(event) if output == "table" else _json(event)
                click.echo(harmless(text.encode()))
    except PermissionError as error:
        raise Refused(f"{error.filename} is root's: run this as root", Exit.HOST) from error


def _is_wanted(event: JsonObject, user: str | None, seconds: float | None, now: datetime) -> bool:
    from kvedge.runtime.clock import seconds_since

    if user is not None and event.get("user", {}).get("username") != user:
        return False
    since = seconds_since(event.get("requestReceivedTimestamp"), now)
    return seconds is None or since is None or since <= seconds


def _line(event: JsonObject) -> str:
    about = event.get("objectRef") or {}
    parts = [about.get("resource", ""), about.get("subresource", "")]
    place = "/".join(part for part in (about.get("namespace"), about.get("name")) if part)
    what = f"{'/'.join(part for part in parts if part)} {place}".strip() or event.get("requestURI", "")
    # The client of one that has neither begun nor a status left before the answer.
    begins = "begins" if event.get("stage") == "ResponseStarted" else "left"
    status = event.get("responseStatus", {}).get("code", begins)
    sources = ",".join(event.get("sourceIPs") or ()) or "-"
    who = event.get("user", {}).get("username", "")
    return f"{event.get('requestReceivedTimestamp', '')}  {status}  {who}  {sources}  {event.get('verb', '')} {what}"


def _json(event: JsonObject) -> str:
    import msgspec

    return msgspec.json.encode(event).decode()
