"""`kvedge console`: the guest's serial console in this terminal, or what was on it.

Called by the group. Modules that talk to the guest are imported when they are used.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, vmi_argument
from kvedge.client.session import Session


@click.command(cls=VerbCommand)
@vmi_argument("vmi")
@session_options
@click.option("--timeout", type=float, default=5.0, show_default=True, help="Minutes to wait for the guest to run.")
@click.option("--log", is_flag=True, help="Show what the guest has written so far, also when it has ended.")
@click.option("--tail", type=click.IntRange(min=1), default=None, metavar="BYTES", help="With --log: only the end.")
@click.option("--previous", is_flag=True, help="With --log: only what was moved out of the current log file.")
def console(
    vmi: str,
    kubeconfig: Path | None,
    namespace: str | None,
    timeout: float,
    log: bool,
    tail: int | None,
    previous: bool,
) -> None:
    """Connect to a guest's serial console; Ctrl+] leaves it.

    With --log, what a terminal would obey is left out on a terminal; a file or a pipe gets each byte as it was written.
    """
    if (tail is not None or previous) and not log:
        raise Refused("--tail and --previous go with --log", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    if log:
        _show_log(session, vmi, tail, previous)
        return
    from kvedge.cli.guests.console_session import attach

    attach(session, vmi, timeout * 60)


def _show_log(session: Session, vmi: str, tail: int | None, previous: bool) -> None:
    from kvedge.client.harmless_text import harmless
    from kvedge.client.subresources import VMI, get_content

    query = {"previous": "true"} if previous else {}
    if tail is not None:
        query["tailBytes"] = str(tail)
    data = get_content(session, VMI, vmi, "console/log", query)
    if sys.stdout.isatty():
        text = harmless(data)
        click.echo(text, nl=bool(text) and not text.endswith("\n"))
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
