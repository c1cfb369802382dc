"""`kvedge addvolume|removevolume`: virtctl's verbs for disks that come and go while a guest runs.

Called by the group. Prints one line when the request was accepted; the guest has the disk a moment later.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
_PERSIST = click.option("--persist", is_flag=True, hidden=True, help="Has no effect: a VM keeps its volumes.")


@click.command(cls=VerbCommand)
@vm_argument("vm")
@session_options
@click.option("--volume-name", required=True, help="The DataVolume or claim.")
@click.option("--disk-name", default="", help="What volume and disk are called; without it as the claim.")
@click.option("--serial", default="", help="The disk's serial number; without it the disk's name.")
@click.option("--cache", type=click.Choice(["none", "writethrough", "writeback"]), help="How the host caches it.")
@click.option("--disk-type", type=click.Choice(["disk", "lun"]), default="disk", show_default=True)
@click.option("--bus", type=click.Choice(["scsi", "virtio"]), default="scsi", show_default=True)
@_PERSIST
@_DRY_RUN
def addvolume(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    volume_name: str,
    disk_name: str,
    serial: str,
    cache: str | None,
    disk_type: str,
    bus: str,
    persist: bool,
    dry_run: bool,
) -> None:
    """Give a VM another disk, also while it runs."""
    if disk_type == "lun" and bus != "scsi":
        raise Refused("a LUN is on the bus scsi: leave --bus out", Exit.USAGE)
    from kvedge.client.volumes.disk_requests import add_disk, find_source, make_disk

    session = open_session(kubeconfig, namespace)
    name = disk_name or volume_name
    disk = make_disk(name, bus, serial)
    if disk_type == "lun":
        if serial:
            raise Refused("a LUN has a serial number of its own: leave --serial out", Exit.USAGE)
        disk = {"name": name, "lun": {"bus": bus}}
    if cache is not None:
        disk["cache"] = cache
    _tell_dry_run(dry_run)
    add_disk(session, vm, disk, find_source(session, volume_name), dry_run=dry_run)
    click.echo(f"Successfully submitted add volume request to VM {vm} for volume {name}")


@click.command(cls=VerbCommand)
@vm_argument("vm")
@session_options
@click.option("--volume-name", required=True, help="The volume, or its claim.")
@_PERSIST
@_DRY_RUN
def removevolume(
    vm: str, kubeconfig: Path | None, namespace: str | None, volume_name: str, persist: bool, dry_run: bool
) -> None:
    """Take a disk from a VM, also while it runs."""
    from kvedge.client.volumes.disk_requests import remove_disk

    session = open_session(kubeconfig, namespace)
    _tell_dry_run(dry_run)
    remove_disk(session, vm, volume_name, dry_run=dry_run)
    click.echo(f"Successfully submitted remove volume request to VM {vm} for volume {volume_name}")


def _tell_dry_run(dry_run: bool) -> None:
    if dry_run:
        click.echo("Dry Run execution")
