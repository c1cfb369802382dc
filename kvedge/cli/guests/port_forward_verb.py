"""`kvedge port-forward`: ports of this computer that lead to ports of a guest, through the API server.

Called by the group, and by ssh as its ProxyCommand. Prints what it listens on.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.verb_command import VerbCommand, target_argument
from kvedge.client.session import open_session, session_options


@click.command("port-forward", cls=VerbCommand)
@target_argument("target", metavar="TYPE/NAME[/NAMESPACE]")
@click.argument("ports", metavar="[PROTOCOL/][ADDRESS:]LOCAL[:REMOTE]...", nargs=-1, required=True)
@session_options
@click.option("--stdio", is_flag=True, help="Join one port to standard input and output instead.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen.")
def port_forward(
    target: str, ports: tuple[str, ...], kubeconfig: Path | None, namespace: str | None, stdio: bool, address: str
) -> None:
    """Forward local ports to ports of a guest.

    \b
    kvedge port-forward vm/web 8080:80            127.0.0.1:8080 leads to port 80 of the guest
    kvedge port-forward vmi/dns/shop udp/5353:53  UDP, of a VMI in another namespace
    kvedge port-forward vm/web 0.0.0.0:8080:80    for others on this network too

    All of it passes the API server: for much traffic use a Service (`kvedge expose`) or the guest's own address.
    """
    from kvedge.client.streams.port_specs import parse_port, parse_target

    wanted = parse_target(target)
    found = [parse_port(port) for port in ports]
    if stdio and len(found) != 1:
        raise Refused("only one port supported when forwarding to stdout", Exit.USAGE)
    session = open_session(kubeconfig, wanted.namespace or namespace)
    from kvedge.client.streams import port_forwarder

    if stdio:
        port_forwarder.join_stdio_to(session, wanted, found[0])
        return
    found = [port if port.address else dataclasses.replace(port, address=address) for port in found]
    port_forwarder.forward(session, wanted, found)
