"""`kvedge addvolume|removevolume`: virtctl's verbs for disks that come and go while a guest runs.

Called by the group. Prints one line when the request was accepted; the guest has the disk a moment later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vm_argument
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
# The length of a serial on a bus. A name is cut to it; the server judges a serial that is given.
_LONGEST_SERIAL: Final = {"scsi": 36, "virtio": 20}
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
    session = open_session(kubeconfig, namespace)
    name = disk_name or volume_name
    disk: JsonObject = {"name": name, disk_type: {"bus": bus}}
    if disk_type == "disk":
        disk["serial"] = serial or name[: _LONGEST_SERIAL[bus]]
    elif serial:
        raise Refused("a LUN has a serial number of its own: leave --serial out", Exit.USAGE)
    if cache is not None:
        disk["cache"] = cache
    body: JsonObject = {"name": name, "disk": disk, "volumeSource": _source(session, volume_name)}
    _ask(session, vm, "addvolume", body, dry_run)
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
    session = open_session(kubeconfig, namespace)
    _ask(session, vm, "removevolume", {"name": volume_name}, dry_run)
    click.echo(f"Successfully submitted remove volume request to VM {vm} for volume {volume_name}")


def _source(session: Session, name: str) -> JsonObject:
    """The DataVolume of that name, else the claim."""
    at = f"namespaces/{session.namespace}"
    check_name(name)
    for path, source in (
        (f"/apis/cdi.kubevirt.io/v1beta1/{at}/datavolumes/{name}", {"dataVolume": {"name": name}}),
        (f"/api/v1/{at}/persistentvolumeclaims/{name}", {"persistentVolumeClaim": {"claimName": name}}),
    ):
        try:
            session.client.request("GET", path)
        except NotFound:
            continue
        return source
    raise Refused(f"volume {name} is neither a DataVolume nor a PersistentVolumeClaim", Exit.NOT_FOUND)


def _ask(session: Session, vm: str, call: str, body: JsonObject, dry_run: bool) -> None:
    """Of the VM, or of the VMI of that name where there is no VM."""
    from kvedge.client.errors import NotFoundError
    from kvedge.client.subresources import VM, VMI, put

    if dry_run:
        click.echo("Dry Run execution")
    sent = {**body, "dryRun": ["All"] if dry_run else None}
    try:
        put(session, VM, vm, call, sent)
    except NotFoundError:
        put(session, VMI, vm, call, sent)
