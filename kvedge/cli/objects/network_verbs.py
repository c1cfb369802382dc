"""`kvedge network list|create|confirm|delete|show`: networks that VMs join besides the Pod network, and the way there.

Called by the group. Prints.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.config_option import CONFIG
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup, network_argument, vmi_argument

if TYPE_CHECKING:
    from kvedge.client.session import Session
    from kvedge.network.lan.lan_addresses import LanAddresses
    from kvedge.network.lan.lan_config import LanConfig
    from kvedge.network.lan.macvtap_config import MacvtapConfig
    from kvedge.network.lan.vlan_trunk import Trunk
    from kvedge.resources.codec import JsonObject

_DATA_DIR = click.option("--data-dir", default=None, help="The data directory of the box [/var/lib/kvedge].")


@click.group(cls=VerbGroup)
def network() -> None:
    """Networks: the LAN, or one of VMs among themselves, besides the Pod network."""


@network.command("list")
@network_argument("names", nargs=-1, metavar="[NAME]...")
@session_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "name"]), default="table", help="[table]")
def list_(
    names: tuple[str, ...], kubeconfig: Path | None, namespace: str | None, all_namespaces: bool, output: str
) -> None:
    """Show the networks: their bridge on the host, VLAN, the VMs on them."""
    from kvedge.client.networks.network_calls import list_networks
    from kvedge.client.networks.network_rows import HEADER, network_rows, users_of
    from kvedge.client.tables import columns
    from kvedge.resources.types.attachments import NetworkAttachmentDefinition
    from kvedge.resources.types.vm import VirtualMachine
    from kvedge.resources.types.vmi import VirtualMachineInstance
    from kvedge.runtime.nearest_names import or_nearest

    session = open_session(kubeconfig, namespace)
    place = None if all_namespaces else session.namespace
    found = list_networks(session, place)
    known = {each.metadata.name for each in found}
    for name in names:
        if name not in known:
            raise Refused(f'network "{name}" not found.{or_nearest(name, sorted(known))}', Exit.NOT_FOUND)
    # A VM may be on a network of another namespace.
    users = users_of(session.client.list(VirtualMachine, None), session.client.list(VirtualMachineInstance, None))
    wanted = [each for each in found if not names or each.metadata.name in names]
    rows = network_rows(wanted, users, datetime.now(UTC))
    if output == "name":
        for row in rows:
            click.echo(f"{NetworkAttachmentDefinition.KIND.qualified_plural}/{row.name}")
    elif output in ("json", "yaml"):
        from kvedge.cli.output import print_document

        print_document([row.document() for row in rows], output)
    elif not rows:
        click.echo("No networks found: `kvedge network create NAME` makes one for VMs among themselves.", err=True)
    else:
        header = (["NAMESPACE"] if all_namespaces else []) + HEADER
        for line in columns([header, *(row.cells(with_namespace=all_namespaces) for row in rows)]):
            click.echo(line)


@network.command()
@vmi_argument("vmi")
@session_options
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="[text]")
def show(vmi: str, kubeconfig: Path | None, namespace: str | None, output: str) -> None:
    """Show the way of a guest's packets, link by link, with what each has counted and dropped.

    \b
    FROM GUEST and TO GUEST are packets and bytes since the link was made.
    """
    from kvedge.client.networks.packet_ways import HEADER, way_lines, way_notes
    from kvedge.client.subresources import VMI, get
    from kvedge.client.tables import columns

    found = get(open_session(kubeconfig, namespace), VMI, vmi, "network")
    if output in ("json", "yaml"):
        from kvedge.cli.output import print_document

        print_document(found, output)
        return
    for number, interface in enumerate(found["interfaces"]):
        click.echo(f"{chr(10) if number else ''}{interface['name']} ({interface['binding']}), node {found['node']}")
        for line in (*columns([HEADER, *way_lines(interface)]), *way_notes(interface)):
            click.echo(line)


@network.command()
@click.argument("name")
@session_options
@click.option(
    "--type",
    "kind",
    type=click.Choice(["bridge", "macvtap"]),
    default="bridge",
    help="How guests are on the host: by a bridge, or each by a macvtap on the NIC of --nic. [bridge]",
)
@click.option("--bridge", default=None, help="A bridge of the host, such as br0, that leads to the LAN.")
@click.option("--nic", default=None, help="A NIC of this host, such as eth0: kvedge makes a bridge of it.")
@click.option("--vlan", type=int, default=0, help="The VLAN of that bridge to be on, 1 to 4094.")
@click.option("--trunk", default="", help="VLANs of that bridge that guests get with their tags, such as 10,20-30.")
@click.option("--native", type=int, default=0, help="With --trunk: the VLAN of frames without a tag [none].")
@click.option("--mtu", type=int, default=0, help="The MTU of the guests' NICs [the bridge's].")
@click.option("--isolate-ports", is_flag=True, help="Guests reach the LAN, and not each other.")
@click.option("--dhcp", "dhcp_range", default="", help="Guests get addresses of it: 192.168.1.50-192.168.1.99/24.")
@click.option("--gateway", default="", help="With --dhcp: the router that guests are told of [none].")
@click.option(
    "--reserve",
    "reserved",
    multiple=True,
    metavar="MAC=ADDRESS",
    help="With --dhcp: the address of one MAC; may repeat.",
)
@click.option("--filter-addresses", is_flag=True, help="With --dhcp: a guest speaks with its own address alone.")
@click.option(
    "--allow-servers/--no-servers",
    default=None,
    help="Guests may answer DHCP and advertise routers there [only without --bridge and --nic].",
)
@click.option("--dry-run", is_flag=True, help="Print the manifest instead.")
@CONFIG
@_DATA_DIR
def create(
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    kind: str,
    bridge: str | None,
    nic: str | None,
    vlan: int,
    trunk: str,
    native: int,
    mtu: int,
    isolate_ports: bool,
    dhcp_range: str,
    gateway: str,
    reserved: tuple[str, ...],
    filter_addresses: bool,
    allow_servers: bool | None,
    dry_run: bool,
    config: Path | None,
    data_dir: str | None,
) -> None:
    """Make a network: of VMs among themselves, or with --bridge the LAN: `kvedge network create lan --bridge br0`.

    A VM joins it by an entry of its networks, {name: lan, multus: {networkName: lan}}, and an interface of that name
    with the binding `bridge: {}`. The bridge of --bridge is the host's own: kvedge joins it, and changes nothing of it.
    Without --bridge there is a bridge on the host while a VM of the network runs, and nobody else is on it.

    In a cluster, guests of --bridge go to nodes that have the bridge; those of a network without it reach each other
    on one node. Where there is no Multus, kvedge joins them itself.

    With --nic, as root on the box, kvedge makes the bridge of a NIC, and moves the host's addresses and routes there.
    They are moved back after 30 s, unless you confirm that the host is still reached. The bridge is there again after a
    reboot, and goes with the network. --bridge is then its name.

    With --dhcp kvedge gives each guest an address, which stays the VM's, and answers its DHCP; no other server hears
    it. Choose a range that nobody else gives away. With --filter-addresses it is kept to that, and to IPv4.

    With --type macvtap and --nic nothing of the host changes, and it may be any host's NIC: each guest has a link of
    its own there. The host itself and these guests do not reach each other. A VM joins such a network by the binding
    {name: macvtap}, a plugin of domainAttachmentType tap in the KubeVirt object.
    """
    from kvedge.client.networks.network_calls import (
        bind_to_nodes,
        make_bridge_name,
        network_document,
        note_reservations,
    )
    from kvedge.network.lan.lan_config import LanConfig
    from kvedge.network.nics.nic_state import bridge_of_nic

    session = open_session(kubeconfig, namespace)
    wanted: LanConfig | MacvtapConfig
    if kind == "macvtap":
        if dhcp_range or gateway or reserved or filter_addresses:
            raise Refused("--type macvtap gives no addresses: guests ask the LAN's DHCP", Exit.USAGE)
        if bridge is not None or vlan or trunk or native:
            raise Refused("--type macvtap takes --nic alone; of a VLAN, name its link, such as eth0.7", Exit.USAGE)
        wanted = _macvtap_on(nic, mtu, isolate_ports=isolate_ports, servers=bool(allow_servers))
        _create(session, network_document(name, session.namespace, wanted), dry_run=dry_run)
        return
    if (vlan or trunk) and (bridge is None or nic is not None):
        which = "--vlan is a VLAN" if vlan else "--trunk is VLANs"
        raise Refused(f"{which} of a bridge of the host's own: name that with --bridge", Exit.USAGE)
    tagged = _trunk(trunk, vlan, native)
    made = bridge is None and nic is None
    if bridge is None:
        bridge = make_bridge_name(session.namespace, name) if nic is None else bridge_of_nic(nic)
    wanted = LanConfig(
        bridge=bridge,
        made=made,
        nic=nic or "",
        vlan=vlan or native,
        trunk=tagged,
        mtu=mtu,
        isolates_ports=isolate_ports,
        servers=made if allow_servers is None else allow_servers,
        addresses=_addresses(dhcp_range, gateway, reserved, filters=filter_addresses),
        filters=filter_addresses,
    )
    document = network_document(name, session.namespace, wanted)
    if reserved:
        note_reservations(document, wanted, reserved)
    if not made and nic is None:
        bind_to_nodes(session, document)
    if nic is None or dry_run:
        _create(session, document, dry_run=dry_run)
    else:
        _create_on_nic(session, document, wanted, config, data_dir)
        click.echo(f"network {name} created")


def _addresses(dhcp_range: str, gateway: str, reserved: tuple[str, ...], *, filters: bool) -> LanAddresses | None:
    from kvedge.network.lan.lan_addresses import AddressesError, addresses_of_text

    if not dhcp_range:
        if gateway or reserved or filters:
            raise Refused("--gateway, --reserve and --filter-addresses are of --dhcp: name its range", Exit.USAGE)
        return None
    try:
        return addresses_of_text(dhcp_range, gateway)
    except AddressesError as error:
        raise Refused(f"--dhcp: {error}", Exit.USAGE) from error


def _macvtap_on(nic: str | None, mtu: int, *, isolate_ports: bool, servers: bool) -> MacvtapConfig:
    from kvedge.network.lan.macvtap_config import BRIDGE, PRIVATE, MacvtapConfig

    if nic is None:
        raise Refused("--type macvtap is on a NIC of the host: name that with --nic", Exit.USAGE)
    return MacvtapConfig(nic=nic, mode=PRIVATE if isolate_ports else BRIDGE, mtu=mtu, servers=servers)


def _create(session: Session, document: JsonObject, *, dry_run: bool) -> None:
    from kvedge.client.networks.network_calls import create_network

    if dry_run:
        from kvedge.cli.output import print_document

        print_document(document, "yaml")
        return
    create_network(session, document)
    click.echo(f"network {document['metadata']['name']} created")


def _trunk(trunk: str, vlan: int, native: int) -> Trunk:
    from kvedge.network.lan.vlan_trunk import TrunkError, trunk_of_text, vlans_of

    if not trunk:
        if native:
            raise Refused("--native is of a trunk: name its VLANs with --trunk", Exit.USAGE)
        return ()
    try:
        found = trunk_of_text(trunk)
    except TrunkError as error:
        raise Refused(f"--trunk: {error}", Exit.USAGE) from error
    if vlan:
        raise Refused("a port has either --vlan or --trunk: for frames without a tag there is --native", Exit.USAGE)
    if native in vlans_of(found):
        raise Refused(f"--native: {native} is in --trunk: a VLAN comes with its tag or without", Exit.USAGE)
    return found


def _create_on_nic(
    session: Session, document: JsonObject, wanted: LanConfig, config: Path | None, data_dir: str | None
) -> None:
    """The NIC is moved before there is a network that says so, and moved back when there will be none."""
    from kvedge.cli.objects.nic_moves import (
        give_nic_back,
        make_bridge,
        open_nic_journal,
        refuse_elsewhere,
        refuse_unkept,
    )
    from kvedge.client.networks.network_calls import create_network, refuse_known

    journal = open_nic_journal(config, data_dir)
    refuse_elsewhere(session.client.host)
    refuse_unkept(session.client, config, data_dir)
    refuse_known(session, document["metadata"]["name"])
    moved = make_bridge(journal, wanted.nic, wanted.bridge)
    try:
        create_network(session, document)
    except BaseException:
        if moved:
            give_nic_back(journal, wanted.bridge)
        raise


@network.command()
@CONFIG
@_DATA_DIR
def confirm(config: Path | None, data_dir: str | None) -> None:
    """Keep a NIC's bridge: say, over a new connection, that this host is still reached."""
    from kvedge.cli.objects.nic_moves import confirm_moves, open_nic_journal

    for bridge in confirm_moves(open_nic_journal(config, data_dir)):
        click.echo(f"{bridge} stays")


@network.command("guard-nic", hidden=True)
@click.argument("nic")
@click.argument("bridge")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--seconds", type=float, default=30.0)
def guard_nic(nic: str, bridge: str, directory: Path, seconds: float) -> None:
    """Move a NIC, and move it back unless somebody confirms it in time; started by `create`."""
    from kvedge.cli.objects.nic_moves import guard

    guard(nic, bridge, directory, seconds)


@network.command()
@network_argument("names", nargs=-1, required=True, metavar="NAME...")
@session_options
@click.option("--force", is_flag=True, help="Also those that VMs are on; what runs stays on them until it ends.")
@CONFIG
@_DATA_DIR
def delete(
    names: tuple[str, ...],
    kubeconfig: Path | None,
    namespace: str | None,
    force: bool,
    config: Path | None,
    data_dir: str | None,
) -> None:
    """Delete networks; those that a VM is on are kept.

    The bridge of a NIC (`create --nic`) goes with its last network, and the NIC has the host's addresses again.
    """
    from kvedge.client.networks.network_calls import nic_bridge_of, users_of_network
    from kvedge.client.session import check_name
    from kvedge.resources.types.attachments import NetworkAttachmentDefinition

    session = open_session(kubeconfig, namespace)
    for name in names:
        users = [] if force else users_of_network(session, check_name(name))
        if users:
            raise Refused(
                f"network {name} is kept: {', '.join(users)} is on it."
                " Take it out of the manifest or delete the VM first, or say --force."
            )
        if (bridge := nic_bridge_of(session, name)) is not None:
            from kvedge.cli.objects.nic_moves import give_nic_back, open_nic_journal, refuse_elsewhere

            journal = open_nic_journal(config, data_dir)
            refuse_elsewhere(session.client.host)
            give_nic_back(journal, bridge)
        session.client.delete(NetworkAttachmentDefinition, session.namespace, name)
        click.echo(f"network {name} deleted")
