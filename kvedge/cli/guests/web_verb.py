"""`kvedge web`: the web console on this computer, with the rights of the kubeconfig.

Called by the group. Prints the link that signs in; with --open a browser gets it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand

if TYPE_CHECKING:
    from kvedge.client.session import Session


@click.command(cls=VerbCommand)
@session_options
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port of 127.0.0.1 [a free one].")
@click.option("--open", "open_browser", is_flag=True, help="Open the link in this computer's browser.")
def web(kubeconfig: Path | None, namespace: str | None, port: int, open_browser: bool) -> None:
    """Show VMs, consoles and screens in a browser of this computer.

    It listens on 127.0.0.1 alone, and acts with the rights of the kubeconfig. The link that it prints signs in once,
    within five minutes. Ctrl-C ends it. Without -n it shows the VMs of all namespaces that may be listed.
    """
    from kvedge.web.console_server import choose_namespace

    session = open_session(kubeconfig, namespace)
    _serve(session, choose_namespace(session, namespace), port, open_browser=open_browser)


def _serve(session: Session, namespace: str | None, port: int, *, open_browser: bool) -> None:
    """Until Ctrl-C or SIGTERM."""
    import asyncio
    import signal

    from kvedge.cli.guests.stream_runs import run_here
    from kvedge.web.console_server import serve

    def tell_link(link: str) -> None:
        # A caller behind a pipe waits for this line.
        print(link, flush=True)
        if open_browser and click.launch(link) != 0:
            click.echo("no browser could be started: open the link yourself", err=True)

    async def serve_until_signal() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await serve(session, namespace, port, tell_link, stopped)

    run_here(serve_until_signal())
