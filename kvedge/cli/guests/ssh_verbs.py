"""`kvedge ssh|scp`: the system's own clients, led to the guest through the API server, as virtctl does.

Called by the group. Runs ssh or scp and ends as it does.
"""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand, target_argument
from kvedge.client.session import Session

if TYPE_CHECKING:
    from kvedge.cli.guests.ssh_command import SshOptions
    from kvedge.client.streams.port_specs import Target

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option("-l", "--username", default=None, help="The user in the guest; this computer's otherwise."),
    click.option(
        "-i",
        "--identity-file",
        type=click.Path(),
        default="",
        help="A private key; the agent's and ssh's own otherwise.",
    ),
    click.option("--known-hosts", type=click.Path(), default="", help="A known_hosts file; ssh's own otherwise."),
    click.option(
        "-p", "--port", type=click.IntRange(1, 65535), default=22, show_default=True, help="SSH's port in the guest."
    ),
    click.option("-t", "--local-ssh-opts", multiple=True, help='More for the local client: -t "-o BatchMode=yes".'),
]


def _ssh_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command(cls=VerbCommand)
@target_argument("target", metavar="[USER@]TYPE/NAME[/NAMESPACE]")
@session_options
@_ssh_options
@click.option("-c", "--command", default="", help="Run this in the guest instead of a shell.")
def ssh(target: str, kubeconfig: Path | None, namespace: str | None, command: str, **values: Any) -> None:
    """Open an SSH connection to a guest, with the ssh of this computer.

    \b
    kvedge ssh admin@vm/web
    kvedge ssh vm/web/shop -l admin -i ~/.ssh/edge -c 'uptime'
    """
    from kvedge.cli.guests.ssh_command import host_alias
    from kvedge.client.streams.port_specs import parse_user_target

    wanted, options = parse_user_target(target), _options(values)
    session = open_session(kubeconfig, wanted.namespace or namespace)
    alias = host_alias(wanted, session.namespace, options.username)
    _run("ssh", session, wanted, options, [alias, *([command] if command else [])])


@click.command(cls=VerbCommand)
@click.argument("source", type=click.Path())
@click.argument("destination", type=click.Path())
@session_options
@_ssh_options
@click.option("-r", "--recursive", is_flag=True, help="Copy whole directories.")
@click.option("--preserve", is_flag=True, help="Keep times and modes.")
def scp(
    source: str,
    destination: str,
    kubeconfig: Path | None,
    namespace: str | None,
    recursive: bool,
    preserve: bool,
    **values: Any,
) -> None:
    """Copy files from or to a guest, with the scp of this computer.

    \b
    kvedge scp notes.txt admin@vm/web:
    kvedge scp -r admin@vm/web/shop:/var/log ./log
    """
    from kvedge.cli.guests.ssh_command import host_alias, parse_copy

    places, options = parse_copy(source, destination), _options(values)
    session = open_session(kubeconfig, places.target.namespace or namespace)
    remote = f"{host_alias(places.target, session.namespace, options.username)}:{places.remote}"
    arguments = (["-r"] if recursive else []) + (["-p"] if preserve else [])
    arguments += [places.local, remote] if places.is_to_guest else [remote, places.local]
    _run("scp", session, places.target, options, arguments)


def _options(values: dict[str, Any]) -> SshOptions:
    from kvedge.cli.guests.ssh_command import SshOptions

    return SshOptions(
        port=values["port"],
        username=values["username"] if values["username"] is not None else _own_name(),
        identity_file=values["identity_file"],
        known_hosts=values["known_hosts"],
        local_options=values["local_ssh_opts"],
    )


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user without a name: ssh has its own way to find one.
        return ""


def _run(program: str, session: Session, target: Target, options: SshOptions, arguments: Sequence[str]) -> NoReturn:
    from kvedge.cli.guests.ssh_command import client_options, proxy_command
    from kvedge.runtime.program import foreign_environment, program_command

    path = shutil.which(program)
    if path is None:
        raise Refused(
            f"there is no {program} on this computer: install an SSH client (Debian: apt install openssh-client), or "
            f"lead another computer's here: `kvedge port-forward {target.kind}/{target.name} 2222:{options.port}`",
            Exit.HOST,
        )
    ours = [*program_command(), *_same_server(session)]
    proxy = proxy_command(ours, target, session.namespace, options.port)
    try:
        # In our place: it has the terminal, the signals and the exit code.
        os.execve(path, [path, *client_options(options, proxy), *arguments], foreign_environment(os.environ))
    except OSError as error:
        raise Refused(f"{path} cannot be run: {error.strerror}", Exit.HOST) from error


def _same_server(session: Session) -> list[str]:
    """What leads the kvedge that ssh starts to the same API server; several files only $KUBECONFIG can name."""
    paths = session.kubeconfig.paths
    named = ["--kubeconfig", str(paths[0].absolute())] if len(paths) == 1 else []
    return [*named, "--context", session.kubeconfig.context]
