"""`kvedge alarms`: what is raised now, and what to do about it.

Called by the group. Prints.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvedge.resources.alarms.alarm_state import Alarm

_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The format [table]."
)


class _ListsByItself(VerbGroup):
    """Without a verb, or with options alone, it is `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ListsByItself)
def alarms() -> None:
    """Show what is wrong with VMs, nodes and backups now, and what to do about it."""


@alarms.command("list")
@session_options
@_OUTPUT
def list_(kubeconfig: Path | None, namespace: str | None, output: str) -> None:
    """Show the alarms that are raised, the worst first."""
    from kvedge.client.alarms import HEADER, alarm_document, alarm_rows
    from kvedge.client.tables import columns

    found = _fetch(kubeconfig, namespace)
    if output == "json":
        from kvedge.cli.output import print_document

        print_document([alarm_document(each) for each in found], "json")
        return
    if not found:
        click.echo("No alarms.", err=True)
        return
    for line in columns([HEADER, *alarm_rows(found)]):
        click.echo(line)


@alarms.command()
def rules() -> None:
    """Show all rules by which alarms are raised."""
    from kvedge.client.alarms import RULE_HEADER, rule_rows
    from kvedge.client.tables import columns

    for line in columns([RULE_HEADER, *rule_rows()]):
        click.echo(line)


@alarms.command()
@click.argument("name")
@session_options
@click.option("--offline", is_flag=True, help="Ask no server what the rule is raised about now.")
def show(name: str, kubeconfig: Path | None, namespace: str | None, offline: bool) -> None:
    """Show one rule, what it is raised about, and its runbook."""
    from kvedge.client.alarms import explain_rule
    from kvedge.resources.alarms.alarm_rules import RULES, read_runbook
    from kvedge.runtime.nearest_names import or_nearest

    by_lower = {each.lower(): each for each in RULES}
    known = by_lower.get(name.lower())
    if known is None:
        raise Refused(f"there is no alarm {name}.{or_nearest(name, RULES)}", Exit.NOT_FOUND)
    found = [] if offline else [each for each in _fetch(kubeconfig, namespace) if each.rule == known]
    for line in explain_rule(RULES[known], found)[: -1 if offline else None]:
        click.echo(line)
    click.echo()
    click.echo(read_runbook(known).rstrip("\n"))


@alarms.command()
@CONFIG
def test(config: Path | None) -> None:
    """Tell each receiver of this host's file something now, and show what it answers."""
    from kvedge.controller.alarms.words.receiver_settings import ReceiverError
    from kvedge.controller.alarms.words.teller_desk import read_receivers_file
    from kvedge.controller.alarms.words.trial import try_receiver
    from kvedge.resources.alarms.alarm_names import RECEIVERS_FILE
    from kvedge.runtime.settings import load_settings

    settings = load_settings(config_path(config), os.environ, {})
    path = settings.user_kubeconfig.parent / RECEIVERS_FILE
    try:
        receivers = read_receivers_file(path)
    except (ReceiverError, OSError) as error:
        raise Refused(str(error), Exit.HOST) from error
    if receivers is None or not receivers.all:
        raise Refused(f"{path} names no receiver", Exit.NOT_FOUND)
    failed = 0
    for each in receivers.all:
        complaint = try_receiver(each, settings.effective_node_name)
        failed += bool(complaint)
        click.echo(f"{each.name}: {complaint or 'told'}")
    if failed:
        raise Refused(f"{failed} of {len(receivers.all)} receivers were not told")


def _fetch(kubeconfig: Path | None, namespace: str | None) -> Sequence[Alarm]:
    from kvedge.client.alarms import fetch_alarms

    return fetch_alarms(open_session(kubeconfig, namespace).client).firing
