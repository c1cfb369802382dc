"""`kvedge version`: the program's, and the server's when there is one, asked as virtctl asks.

Called by the group. Prints. Imports nothing heavy unless a server is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

import kvedge
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.verb_command import VerbCommand

_GROUP: Final = "/apis/subresources.kubevirt.io"
# The user waits for two lines.
_SECONDS: Final = 5.0


@click.command(cls=VerbCommand)
@click.option("-c", "--client", is_flag=True, help="Only this program's: no server is asked.")
@click.option("--server", is_flag=True, help="Fail when there is no server to ask.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default=None, help="The format [lines].")
@click.option("--kubeconfig", type=click.Path(path_type=Path), default=None, help="The kubeconfig to use.")
@click.option("--licences", is_flag=True, help="Print the licences of everything inside this program instead.")
def version(client: bool, server: bool, output: str | None, kubeconfig: Path | None, licences: bool) -> None:
    """Show the version of this program and of the server."""
    if licences:
        _print_licences()
        return
    if client and server:
        raise Refused("--client and --server exclude each other", Exit.USAGE)
    if output is None:
        # Before the server is asked: it may take its time, or not be there.
        click.echo(f"Client Version: kvedge {kvedge.__version__}")
    found = None if client else _server_version(kubeconfig, is_needed=server)
    if output is not None:
        from kvedge.cli.output import print_document

        document = {"clientVersion": {"gitVersion": f"v{kvedge.__version__}"}}
        print_document(document | ({"serverVersion": found} if found else {}), output)
    elif found:
        click.echo(f"Server Version: {_describe(found)}")


def _describe(found: dict[str, Any]) -> str:
    """A kvedge's own version and the API that it serves; of a KubeVirt there is the one."""
    own, api = str(found.get("kvedgeVersion") or ""), str(found["gitVersion"])
    return f"kvedge {own.removeprefix('v')} (API of KubeVirt {api.partition('+')[0]})" if own else api


def _print_licences() -> None:
    from kvedge.runtime.program import program_licences

    path = program_licences()
    if path is None:
        raise Refused("only the built program carries them; a checkout has LICENSE, and its libraries their own")
    click.echo(path.read_text(), nl=False)


def _server_version(kubeconfig: Path | None, *, is_needed: bool) -> dict[str, Any] | None:
    """What the server says of itself; None when none was named and none can be asked."""
    import os

    from kvedge.cli.sessions import find_named_kubeconfig, open_session
    from kvedge.client.errors import UsageError
    from kvedge.client.kubeconfigs import NoKubeconfig

    try:
        session = open_session(kubeconfig, None)
    except UsageError as refused:
        if is_needed or find_named_kubeconfig(kubeconfig) is not None or os.environ.get("KUBECONFIG"):
            raise
        # Such as root's kubeconfig of this box, for a user who only asks for the version.
        if not isinstance(refused, NoKubeconfig):
            click.echo(f"the server is not asked: {refused.text}", err=True)
        return None
    client = session.client.hurry(_SECONDS)
    version = client.request("GET", _GROUP)["preferredVersion"]["groupVersion"]
    answer: dict[str, Any] = client.request("GET", f"/apis/{version}/version")
    return answer
