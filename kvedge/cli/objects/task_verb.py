"""`kvedge tasks`: imports, copies, snapshots, backups and migrations that are under way, or ended of late.

Called by the group. Prints.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand


@click.command("tasks", cls=VerbCommand)
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="[table]")
def tasks(kubeconfig: Path | None, namespace: str | None, all_namespaces: bool, output: str) -> None:
    """Show what is under way: imports, copies, snapshots, backups, migrations.

    What has succeeded within the last hour and what has failed is shown, too, for as long as its object is there.
    """
    from kvedge.client.tables import columns
    from kvedge.client.tasks.task_calls import each_task
    from kvedge.client.tasks.task_rows import HEADER, task_rows

    session = open_session(kubeconfig, namespace)
    refused: list[str] = []
    found = each_task(session, None if all_namespaces else session.namespace, refused.append)
    rows = task_rows(found, datetime.now(UTC), timedelta(hours=1))
    if refused:
        click.echo(f"not shown, as you may not list them: {', '.join(refused)}", err=True)
    if output != "table":
        from kvedge.cli.output import print_document

        print_document([row.document() for row in rows], output)
    elif not rows:
        click.echo("nothing is under way", err=True)
    else:
        header = ["NAMESPACE", *HEADER] if all_namespaces else HEADER
        for line in columns([header, *(row.cells(with_namespace=all_namespaces) for row in rows)]):
            click.echo(line)
