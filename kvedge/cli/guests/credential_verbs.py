"""`kvedge credentials add-ssh-key|remove-ssh-key|set-password`: virtctl's verbs for who may log in to a guest.

Called by the group. Reads the files that the user names, and prints a line for what was done.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.login_options import read_password, read_text
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import F, VerbCommand, VerbGroup, vm_argument


@click.group(cls=VerbGroup)
def credentials() -> None:
    """SSH keys and passwords that a guest's agent brings in: `credentials add-ssh-key`."""


def _common_options(secret: str) -> Callable[[F], F]:
    def add(function: F) -> F:
        for option in (
            click.option("--force", is_flag=True, help="Change a Secret also when it is not this VM's alone."),
            click.option("--secret", default="", metavar="NAME", help=secret),
            click.option("-u", "--user", required=True, help="The user in the guest."),
        ):
            function = option(function)
        return function

    return add


def _key_options(function: F) -> F:
    for option in (
        click.option("--value", default="", metavar="KEY", help="The SSH public key itself."),
        click.option("-f", "--file", type=click.Path(path_type=Path), help="The file with the SSH public key."),
    ):
        function = option(function)
    return function


@credentials.command("add-ssh-key", cls=VerbCommand)
@vm_argument("vm")
@session_options
@_common_options("The Secret, where the user has several.")
@_key_options
@click.option("--create-secret", is_flag=True, help="Make another Secret; a guest that runs has to be restarted.")
@click.option("--update-secret", is_flag=True, help="Put the key into a Secret that is there.")
def add_ssh_key(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    user: str,
    secret: str,
    force: bool,
    file: Path | None,
    value: str,
    create_secret: bool,
    update_secret: bool,
) -> None:
    """Let a key log in to a VM: put it into the user's Secret, or make one."""
    from kvedge.client.credentials.credential_plan import read_keys
    from kvedge.client.credentials.vm_credentials import VmCredentials

    if create_secret and update_secret:
        raise Refused("--create-secret and --update-secret exclude each other", Exit.USAGE)
    keys = read_keys(_read_key(file, value))
    found = VmCredentials(open_session(kubeconfig, namespace), vm, force=force)
    if create_secret or not (update_secret or found.user_has_secret(user)):
        click.echo(found.create_secret(user, keys))
    else:
        click.echo(found.add_keys(user, keys, secret))


@credentials.command("remove-ssh-key", cls=VerbCommand)
@vm_argument("vm")
@session_options
@_common_options("This Secret alone; without it all of the user's.")
@_key_options
def remove_ssh_key(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    user: str,
    secret: str,
    force: bool,
    file: Path | None,
    value: str,
) -> None:
    """Have a key no longer log in to a VM: take it out of the user's Secrets."""
    from kvedge.client.credentials.credential_plan import read_keys
    from kvedge.client.credentials.vm_credentials import VmCredentials

    keys = read_keys(_read_key(file, value))
    found = VmCredentials(open_session(kubeconfig, namespace), vm, force=force)
    for line in found.remove_keys(user, keys, secret):
        click.echo(line)


@credentials.command("set-password", cls=VerbCommand)
@vm_argument("vm")
@session_options
@_common_options("The Secret, where the VM has several.")
@click.option("-p", "--password", help="The password; others on this computer may see it: rather --password-file.")
@click.option("--password-file", type=click.Path(path_type=Path), help="A file with one line, the password.")
def set_password(
    vm: str,
    kubeconfig: Path | None,
    namespace: str | None,
    user: str,
    secret: str,
    force: bool,
    password: str | None,
    password_file: Path | None,
) -> None:
    """Set a user's password in a VM's Secret for passwords."""
    from kvedge.client.credentials.vm_credentials import VmCredentials

    if (password is None) == (password_file is None):
        raise Refused("give --password-file, or --password", Exit.USAGE)
    word = read_password(password_file) if password_file is not None else password or ""
    if not word.strip():
        raise Refused("--password: an empty password is not set in a guest", Exit.USAGE)
    found = VmCredentials(open_session(kubeconfig, namespace), vm, force=force)
    click.echo(found.set_password(user, word, secret))


def _read_key(file: Path | None, value: str) -> str:
    if (file is None) == (not value):
        raise Refused("one of --file, or --value must be specified", Exit.USAGE)
    return value if file is None else read_text("file", file)
