"""`kvedge backup schedule|schedules|unschedule`: backups that are made again and again.

Added to the group of `backup_verbs`. Prints one line for what was done.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.machines.keep_options import chosen_rules, keep_options
from kvedge.cli.sessions import open_session, session_options

if TYPE_CHECKING:
    from kvedge.resources.codec import JsonObject


@click.command()
@click.argument("vms", nargs=-1, metavar="[VM...]")
@click.option("--to", "repository", required=True, metavar="REPOSITORY", help="Where they go.")
@session_options
@click.option("--selector", "-l", default="", metavar="LABELS", help="VMs with these labels too, such as tier=shop.")
@click.option("--all", "all_vms", is_flag=True, help="All VMs of the namespace, also those that come.")
@click.option("--every", default="", metavar="DURATION", help="How often, such as 1d or 6h; the first one at once.")
@click.option("--cron", default="", metavar="FIELDS", help="When, in five fields and UTC, such as '30 2 * * *'.")
@keep_options
@click.option("--name", default=None, help="The schedule's name [that of the one VM].")
@click.option("--deadline", default=None, metavar="DURATION", help="Give a backup up after so long, such as 8h. [24h]")
@click.option("--verify-every", default="", metavar="DURATION", help="Read a part of the repository back so often.")
@click.option("--verify-parts", type=int, default=None, metavar="N", help="Read all of it within so many times [10].")
@click.option(
    "--test-every", default="", metavar="DURATION", help="Boot the latest backup of one VM, each in its turn."
)
@click.option("--suspend", is_flag=True, help="Make none for now.")
def schedule(
    vms: tuple[str, ...],
    repository: str,
    kubeconfig: Path | None,
    namespace: str | None,
    selector: str,
    all_vms: bool,
    every: str,
    cron: str,
    name: str | None,
    deadline: str | None,
    verify_every: str,
    verify_parts: int | None,
    test_every: str,
    suspend: bool,
    **keep: int | None,
) -> None:
    """Make backups of VMs again and again, and let old ones go; a schedule of the same name is written anew."""
    from kvedge.client.upkeep.backup_schedules import describe_keep, in_hours, schedule_backups

    if not (vms or selector or all_vms):
        raise Refused("which VMs: name some, or give --selector or --all", Exit.USAGE)
    if bool(every) == bool(cron):
        raise Refused("one of --every and --cron must be given", Exit.USAGE)
    if name is None and (len(vms) != 1 or selector or all_vms):
        # A name that is made up could be that of another schedule, which would be written anew.
        raise Refused("--name: a schedule of more than one VM needs one", Exit.USAGE)
    rules = chosen_rules(keep)
    given: JsonObject = {
        "vmNames": list(vms),
        "selector": {"matchLabels": {}} if all_vms else _labels(selector) if selector else None,
        "repositoryName": repository,
        "every": in_hours(every),
        "cron": cron,
        "keep": rules,
        "suspend": suspend,
        "deadline": in_hours(deadline) if deadline else None,
        "verifyEvery": in_hours(verify_every),
        "verifyParts": verify_parts,
        "testEvery": in_hours(test_every),
    }
    spec = {key: value for key, value in given.items() if value}
    made, was_there = schedule_backups(open_session(kubeconfig, namespace), name or vms[0], spec)
    verb = "changed" if was_there else "created"
    kept = describe_keep(made.spec.keep)
    when = f"at {cron}" if cron else f"every {every}"
    click.echo(f"schedule {made.metadata.name} {verb}: backups to {repository} {when}; kept: {kept}")


@click.command()
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
def schedules(kubeconfig: Path | None, namespace: str | None, all_namespaces: bool) -> None:
    """Show the schedules of backups, and what is wrong with each."""
    from kvedge.client.tables import columns
    from kvedge.client.upkeep.backup_schedules import HEADER, list_schedules, make_cells

    session = open_session(kubeconfig, namespace)
    found = list_schedules(session, None if all_namespaces else session.namespace)
    if not found:
        click.echo("No schedules found: `kvedge backup schedule VM --to REPOSITORY --every 1d` makes one.", err=True)
        return
    header = (["NAMESPACE"] if all_namespaces else []) + HEADER
    for line in columns([header, *(make_cells(item, with_namespace=all_namespaces) for item in found)]):
        click.echo(line)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@session_options
def unschedule(names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None) -> None:
    """Delete schedules of backups; what they have made stays."""
    from kvedge.client.upkeep.backup_schedules import delete_schedules

    delete_schedules(open_session(kubeconfig, namespace), names)
    for name in names:
        click.echo(f"schedule {name} deleted; its backups stay")


def _labels(text: str) -> JsonObject:
    found = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise Refused(f"--selector: {part!r} is no LABEL=VALUE", Exit.USAGE)
        found[key.strip()] = value.strip().removeprefix("=")
    return {"matchLabels": found}
