"""The command lines of the system's ssh and scp, with kvedge as their way to the guest.

Called by `kvedge ssh` and `kvedge scp`. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from kvedge.cli.exits import Exit, Refused
from kvedge.client.streams.port_specs import Target, parse_user_target


class SshOptions(Struct, frozen=True):
    """What ssh and scp take from virtctl's flags; empty for what was not given."""

    port: int = 22
    username: str = ""
    identity_file: str = ""
    known_hosts: str = ""
    local_options: tuple[str, ...] = ()


class CopyPlaces(NamedTuple):
    """The two ends of a copy; `remote` is a path in the guest of `target`."""

    target: Target
    remote: str
    local: str
    is_to_guest: bool


def proxy_command(program: Sequence[str], target: Target, namespace: str, port: int) -> str:
    """What ssh runs to reach the guest; ssh hands it to a shell and expands percent signs before."""
    words = [*program, "port-forward", "--stdio=true", f"{target.kind}/{target.name}/{namespace}", str(port)]
    return f"ProxyCommand={shlex.join(words)}".replace("%", "%%")


def client_options(options: SshOptions, proxy: str) -> list[str]:
    """The options of ssh and scp alike."""
    found = ["-o", proxy, *options.local_options]
    if options.known_hosts:
        found += ["-o", f"UserKnownHostsFile={options.known_hosts}"]
    if options.identity_file:
        found += ["-i", options.identity_file]
    return found


def host_alias(target: Target, namespace: str, username: str) -> str:
    """What ssh knows the guest by, in known_hosts too; the user of the target comes before the option's.

    Raises:
        Refused: for a user who would be an option.
    """
    user = target.user or username
    if user.startswith("-"):
        # ssh would take it for an option, and some of those run programs.
        raise Refused(f"{user!r} is no user's name", Exit.USAGE)
    return f"{f'{user}@' if user else ''}{target.kind}.{target.name}.{namespace}"


def parse_copy(source: str, destination: str) -> CopyPlaces:
    """Which of the two is the guest's.

    Raises:
        Refused: unless exactly one is.
    """
    from_guest, to_guest = _is_remote(source), _is_remote(destination)
    both = f'"{source}" to "{destination}"'
    if from_guest and to_guest:
        raise Refused(f"copying from a remote location to another remote location is not supported: {both}", Exit.USAGE)
    if not from_guest and not to_guest:
        raise Refused(
            f"none of the two provided locations seems to be a remote location: {both}; write [USER@]vm/NAME:PATH",
            Exit.USAGE,
        )
    where, _, path = (destination if to_guest else source).partition(":")
    return CopyPlaces(parse_user_target(where), path, source if to_guest else destination, to_guest)


def _is_remote(place: str) -> bool:
    return ":" in place
