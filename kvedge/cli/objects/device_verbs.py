"""`kvedge device list` and `permitted-devices`: devices of the nodes that guests may have, or could.

Called by the group. Prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup

if TYPE_CHECKING:
    from kvedge.resources.codec import JsonObject


@click.group(cls=VerbGroup)
def device() -> None:
    """Devices of the nodes for guests: GPUs, PCI cards, USB devices."""


@device.command("list")
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@session_options
@click.option("--permitted", is_flag=True, help="Only those that VMs may have.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="[table]")
def list_(nodes: tuple[str, ...], kubeconfig: Path | None, namespace: str | None, permitted: bool, output: str) -> None:
    """Show what the nodes have, by which resource VMs may have it, and which VM has it.

    A VM names the RESOURCE in deviceName of gpus or hostDevices. An administrator permits devices in
    permittedHostDevices of the KubeVirt object, by their MODEL; USB devices also by SERIAL and, as port, by DEVICE.
    """
    from kvedge.client.devices.device_rows import HEADER, device_rows
    from kvedge.client.tables import columns
    from kvedge.resources.types.core import Node
    from kvedge.runtime.nearest_names import or_nearest

    found = open_session(kubeconfig, namespace).client.list(Node)
    known = {each.metadata.name for each in found}
    for name in nodes:
        if name not in known:
            raise Refused(f'node "{name}" not found.{or_nearest(name, sorted(known))}', Exit.NOT_FOUND)
    rows, notes = device_rows(
        [each for each in found if not nodes or each.metadata.name in nodes], permitted_only=permitted
    )
    if output in ("json", "yaml"):
        from kvedge.cli.output import print_document

        print_document([row.document() for row in rows], output)
    elif rows:
        for line in columns([HEADER, *(row.cells() for row in rows)]):
            click.echo(line)
    else:
        click.echo("No devices found: the nodes have none for guests, or their handlers do not run.", err=True)
    for note in notes:
        click.echo(note, err=True)


@click.command("permitted-devices")
@session_options
def permitted_devices(kubeconfig: Path | None, namespace: str | None) -> None:
    """Show which devices of nodes VMs may name.

    These are the resources of permittedHostDevices in the KubeVirt object, in virtctl's words, with those of USB
    devices; `kvedge device list` shows the nodes' devices themselves.
    """
    from kvedge.resources.types.kubevirt import KubeVirt

    found = open_session(kubeconfig, namespace).client.list(KubeVirt)
    if not found:
        raise Refused("there is no KubeVirt object", Exit.NOT_FOUND)
    permitted = (found[0].spec.get("configuration") or {}).get("permittedHostDevices") or {}
    click.echo(f"Permitted Devices: \nHost Devices: \n{_names(permitted, 'pciHostDevices')} ")
    click.echo(f"GPU Devices: \n{_names(permitted, 'mediatedDevices')}")
    if permitted.get("usb"):
        click.echo(f"USB Devices: \n{_names(permitted, 'usb')}")


def _names(permitted: JsonObject, kind: str) -> str:
    return ", ".join(str(permit.get("resourceName", "")) for permit in permitted.get(kind) or [])
