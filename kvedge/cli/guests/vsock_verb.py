"""`kvedge vsock`: a port of a guest's vsock on standard input and output; the guest needs no network for it.

Called by the group, and by programs that want a way to their agent in a guest.
"""

from __future__ import annotations

from pathlib import Path

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument
from kvedge.resources.relay_protocol import VSOCK_LAST_PORT


@click.command(
    cls=VerbCommand,
    epilog="`devices.autoattachVSOCK: true` gives a VM its vsock, from its next start, where the feature gate VSOCK is"
    " open. A user needs the right for virtualmachineinstances/vsock, which no role brings.",
)
@vmi_argument("vmi")
@click.argument("port", type=click.IntRange(1, VSOCK_LAST_PORT))
@session_options
@click.option(
    "--tls/--no-tls",
    default=True,
    show_default=True,
    help="Whether the program in the guest speaks TLS, and shows a certificate of its own.",
)
def vsock(vmi: str, port: int, kubeconfig: Path | None, namespace: str | None, tls: bool) -> None:
    """Join a port of a guest's vsock to standard input and output: `kvedge vsock web 1234`."""
    session = open_session(kubeconfig, namespace)
    from kvedge.cli.guests.stdio_forward import join_stdio_to
    from kvedge.client.streams.port_specs import Target
    from kvedge.client.subresources import VMI

    join_stdio_to(session, Target(VMI, vmi), "vsock", {"port": str(port), "tls": "true" if tls else "false"})
