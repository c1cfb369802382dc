"""`kvedge recover`: a box whose store is lost gets its claims, snapshots and VMs back from its disks.

Called by the group. Runs on the box as root, while kvedge runs there with an empty or another store.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.config_option import CONFIG
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options

if TYPE_CHECKING:
    from kvedge.standalone.box_state.recover_plan import Made


@click.command()
@session_options
@CONFIG
@click.option("--data-dir", default=None, help="The data directory of the box [/var/lib/kvedge].")
@click.option("--dry-run", is_flag=True, help="Print what would be made, and make nothing.")
def recover(
    kubeconfig: Path | None, namespace: str | None, config: Path | None, data_dir: str | None, dry_run: bool
) -> None:
    """Make claims, snapshots and VMs anew of the disks of this box whose objects are lost; what exists stays.

    Volumes that stay (Retain) and claims are made of all disks that no object names, and VMs of the notes beside them;
    they do not run. Disks without a note become claims named recovered-UID. Kept snapshots of claims become
    VolumeSnapshots. `kvedge state restore` brings back more where there is a file of `kvedge state backup`.
    """
    from kvedge.cli.host.box_settings import operators_settings
    from kvedge.standalone.box_node import read_node_name
    from kvedge.standalone.box_state.recover_run import Recovery
    from kvedge.standalone.volumes.box_places import drivers_of
    from kvedge.storage.volumes.volume_driver import VolumeDriverError

    settings = operators_settings(config, data_dir=data_dir).settings
    session = open_session(kubeconfig, namespace)
    drivers = drivers_of(settings)
    node = read_node_name(settings.state_path) or settings.effective_node_name
    recovery = Recovery(session.client, drivers, node, session.namespace)
    failed = 0

    def tell(item: Made, why: str) -> None:
        nonlocal failed
        failed += bool(why)
        click.echo(f"{_name(item)}: {why}" if why else f"{_name(item)} made")

    try:
        plan = recovery.plan()
        for text in plan.told:
            click.echo(text, err=True)
        if dry_run:
            for item in plan.make:
                click.echo(f"would make {_name(item)}")
            return
        recovery.carry_out(plan, tell)
    except VolumeDriverError as error:
        raise Refused(str(error), Exit.HOST) from error
    if failed:
        raise Refused(f"{failed} of {len(plan.make)} were not made; run it again once the reason is gone")
    if not plan.make:
        click.echo("nothing is lost: every volume of this box has its object", err=True)


def _name(item: Made) -> str:
    place = f"{item.metadata.namespace}/" if item.metadata.namespace else ""
    return f"{item.KIND.kind.lower()} {place}{item.metadata.name}"
