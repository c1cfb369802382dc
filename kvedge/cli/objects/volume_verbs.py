"""`kvedge volume list|create|resize|delete|usage`: the claims on which VMs' disks lie.

Called by the group. Prints.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup, claim_argument

if TYPE_CHECKING:
    from kvedge.client.session import Session
    from kvedge.resources.types.protection.volume_snapshots import VolumeSnapshot
    from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim


@click.group(cls=VerbGroup)
def volume() -> None:
    """Volumes: the claims on which disks of VMs last."""


@volume.command("list")
@claim_argument("names", nargs=-1, metavar="[NAME]...")
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "name"]), default="table", help="[table]")
def list_(
    names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None, all_namespaces: bool, output: str
) -> None:
    """Show the volumes: status, size, class, access, the VMs that use them, their VolumeSnapshots."""
    from kvedge.client.tables import columns
    from kvedge.client.volumes.kept_snapshots import by_claim, list_snapshots
    from kvedge.client.volumes.volume_rows import HEADER, users_of, volume_rows
    from kvedge.resources.types.vm import VirtualMachine
    from kvedge.resources.types.vmi import VirtualMachineInstance

    session = open_session(kubeconfig, namespace)
    place = None if all_namespaces else session.namespace
    claims = _claims(session, place, names)
    users = users_of(session.client.list(VirtualMachine, place), session.client.list(VirtualMachineInstance, place))
    rows = volume_rows(claims, users, datetime.now(UTC), by_claim(list_snapshots(session, place)))
    if output == "name":
        for row in rows:
            click.echo(f"persistentvolumeclaim/{row.name}")
    elif output in ("json", "yaml"):
        from kvedge.cli.output import print_document

        print_document([row.document() for row in rows], output)
    elif not rows:
        click.echo("No volumes found: `kvedge volume create NAME SIZE` makes one.", err=True)
    else:
        header = (["NAMESPACE"] if all_namespaces else []) + HEADER
        for line in columns([header, *(row.cells(with_namespace=all_namespaces) for row in rows)]):
            click.echo(line)


@volume.command()
@click.argument("name")
@click.argument("size")
@session_options
@click.option("--class", "storage_class", default=None, help="The StorageClass [the default one].")
@click.option("--block", is_flag=True, help="A device instead of a file system with an image.")
@click.option("--shared", is_flag=True, help="Several VMs may have it at once (ReadWriteMany).")
@click.option("--dry-run", is_flag=True, help="Print the manifest instead.")
def create(
    name: str,
    size: str,
    kubeconfig: Path | None,
    namespace: str | None,
    storage_class: str | None,
    block: bool,
    shared: bool,
    dry_run: bool,
) -> None:
    """Make an empty volume: `kvedge volume create web-data 20Gi`."""
    from kvedge.client.volumes.volume_calls import claim_document, create_claim
    from kvedge.resources.types.storage import READ_WRITE_MANY, READ_WRITE_ONCE

    session = open_session(kubeconfig, namespace)
    mode = READ_WRITE_MANY if shared else READ_WRITE_ONCE
    document = claim_document(name, session.namespace, size, storage_class=storage_class, block=block, access_mode=mode)
    if dry_run:
        from kvedge.cli.output import print_document

        print_document(document, "yaml")
        return
    create_claim(session, document)
    click.echo(f"volume {name} created")


@volume.command()
@claim_argument("name")
@click.argument("size")
@session_options
def resize(name: str, size: str, kubeconfig: Path | None, namespace: str | None) -> None:
    """Let a volume grow: `kvedge volume resize web-data 40Gi`; a running guest sees it."""
    from kvedge.client.volumes.volume_calls import resize_claim

    session = open_session(kubeconfig, namespace)
    if not resize_claim(session, name, size):
        click.echo(f"volume {name} has {size} already")
        return
    click.echo(f"volume {name} grows to {size}; the guest then has to grow partition and file system")


@volume.command()
@claim_argument("names", nargs=-1, required=True, metavar="NAME...")
@session_options
@click.option("--force", is_flag=True, help="Also those that a VM has; the data is gone when the VM has ended.")
def delete(names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None, force: bool) -> None:
    """Delete volumes with their data; those that a VM has are kept."""
    from kvedge.client.session import check_name
    from kvedge.client.volumes.volume_calls import filler_of_claim, users_of_claim
    from kvedge.resources.types.storage import PersistentVolumeClaim

    session = open_session(kubeconfig, namespace)
    for name in names:
        users = [] if force else users_of_claim(session, check_name(name))
        if users:
            raise Refused(
                f"volume {name} is kept: {', '.join(users)} has it among its volumes."
                " Take it out of the manifest or delete the VM first, or say --force."
            )
        if not force and filler_of_claim(session, name):
            raise Refused(
                f"volume {name} is kept: DataVolume {name} would make it anew and fill it again."
                f" `kubectl delete dv {name}` takes both, or say --force."
            )
        session.client.delete(PersistentVolumeClaim, session.namespace, name)
        click.echo(f"volume {name} deleted")


@volume.command()
@claim_argument("names", nargs=-1, metavar="[NAME]...")
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="[table]")
def usage(
    names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None, all_namespaces: bool, output: str
) -> None:
    """Show how much of this host's disk each volume takes, and each VolumeSnapshot."""
    from kvedge.client.tables import columns
    from kvedge.client.volumes.kept_snapshots import list_snapshots, snapshot_usages
    from kvedge.client.volumes.volume_usage import bytes_text
    from kvedge.resources.types.storage import PersistentVolume

    session = open_session(kubeconfig, namespace)
    place = None if all_namespaces else session.namespace
    claims = _claims(session, place, names)
    volumes = {found.metadata.name: found for found in session.client.list(PersistentVolume, None)}
    found = [_usage(claim, volumes.get(claim.spec.volume_name)) for claim in claims]
    wanted = [item for item in list_snapshots(session, place) if _is_of(item, claims, names)]
    found += snapshot_usages(session, wanted)
    if output != "table":
        from kvedge.cli.output import print_document

        print_document(found, output)
        return
    rows = [["NAMESPACE", "NAME", "SIZE", "USED HERE", "PATH"]]
    for item in found:
        used = "-" if item["usedBytes"] is None else bytes_text(item["usedBytes"])
        rows.append([item["namespace"], item["name"], item["size"] or "-", used, item["path"] or "-"])
    for line in columns(rows):
        click.echo(line)


def _is_of(item: VolumeSnapshot, claims: list[PersistentVolumeClaim], names: tuple[str, ...]) -> bool:
    """Whether a snapshot is of one of these claims; where no claim was named, those of lost claims count as well."""
    source = (item.metadata.namespace, item.spec.source.persistent_volume_claim_name)
    return not names or source in {(claim.metadata.namespace, claim.metadata.name) for claim in claims}


def _usage(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> dict[str, Any]:
    from kvedge.client.volumes.volume_rows import size_text
    from kvedge.client.volumes.volume_usage import read_usage

    source = (volume.spec.local or volume.spec.host_path) if volume is not None else None
    here = read_usage(volume) if volume is not None else None
    return {
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "size": size_text(claim),
        "usedBytes": here.used if here is not None else None,
        "path": source.path if source is not None else "",
    }


def _claims(session: Session, namespace: str | None, names: tuple[str, ...]) -> list[PersistentVolumeClaim]:
    from kvedge.resources.types.storage import PersistentVolumeClaim
    from kvedge.runtime.nearest_names import or_nearest

    found = session.client.list(PersistentVolumeClaim, namespace)
    known = {claim.metadata.name for claim in found}
    for name in names:
        if name not in known:
            raise Refused(f'volume "{name}" not found.{or_nearest(name, sorted(known))}', Exit.NOT_FOUND)
    return [claim for claim in found if not names or claim.metadata.name in names]
