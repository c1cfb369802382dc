"""`kvedge port-forward`: ports of this computer that lead to ports of a guest, through the API server.

Called by the group, and by ssh as its ProxyCommand. Prints what it listens on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, target_argument

if TYPE_CHECKING:
    from kvedge.client.session import Session
    from kvedge.client.streams.port_specs import ForwardedPort, Target


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
    if stdio:
        from kvedge.cli.guests.stdio_forward import join_stdio_to
        from kvedge.client.streams.port_forwarder import port_call

        join_stdio_to(session, wanted, port_call(found[0]))
        return
    found = [port if port.address else replace(port, address=address) for port in found]
    _forward(session, wanted, found)


def _forward(session: Session, target: Target, ports: Sequence[ForwardedPort]) -> None:
    """Listen until Ctrl-C or SIGTERM."""
    import asyncio
    import signal

    from kvedge.cli.guests.stream_runs import run_here
    from kvedge.client.streams.port_forwarder import Told, forward, need_target

    async def forward_until_signal() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await forward(session, target, ports, Told(_tell_listening, _tell_failure), stopped)

    need_target(session, target)
    run_here(forward_until_signal())


def _tell_listening(text: str) -> None:
    # A caller behind a pipe waits for this line.
    print(text, flush=True)


def _tell_failure(text: str) -> None:
    click.echo(text, err=True)
