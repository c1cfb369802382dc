"""How restic reaches a place over the network: what the keys of a repository's Secret become, and the words of ssh.

Called by the door to restic. Reads the Secret's files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

# Keys of the Secret that become restic's variables.
_VARIABLES: Final[Mapping[str, str]] = {
    "accessKeyId": "AWS_ACCESS_KEY_ID",
    "secretKey": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_DEFAULT_REGION",
}
_SSH_KEY: Final = "sshKey"
_KNOWN_HOSTS: Final = "knownHosts"
# sftp:user@host:/path, and with a port sftp://user@host:2222//path. What begins with a dash would be an option of ssh.
_SFTP: Final = re.compile(r"sftp:(?://)?(?P<target>[A-Za-z0-9][A-Za-z0-9@._%+-]*)(?::(?P<port>\d{1,5})(?=/))?[:/].*")
# A server that says nothing any more is given up after two minutes.
_SSH: Final = (
    "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o GlobalKnownHostsFile=/dev/null"
    " -o IdentitiesOnly=yes -o ConnectTimeout=30 -o ServerAliveInterval=30 -o ServerAliveCountMax=4"
)


class AccessError(ValueError):
    """The Secret or the URL lacks something; the text says what."""


def make_options(repository: str, secret: Path, log: str = "") -> list[str]:
    """restic's options for a place. ssh writes its words into the file `log`: else restic passes them on, and may end
    before it has.

    Raises:
        AccessError: when a key is missing that the place needs.
    """
    options = ["--cacert", str(secret / "ca.crt")] if (secret / "ca.crt").is_file() else []
    if repository.startswith("sftp:"):
        options += ["-o", f"sftp.command={_ssh_command(repository, secret, log)}"]
    return options


def make_environment(repository: str, secret: Path) -> dict[str, str]:
    """restic's variables for a place. Passwords go this way, as everybody on a node sees a command's words."""
    found = {name: _read(secret / key) for key, name in _VARIABLES.items() if (secret / key).is_file()}
    return {**found, "RESTIC_REPOSITORY": _with_user(repository, secret)}


def _with_user(repository: str, secret: Path) -> str:
    """restic 0.14 takes the user of a REST server from the URL alone."""
    user, password = secret / "restUser", secret / "restPassword"
    scheme, slashes, rest = repository.partition("://")
    if not repository.startswith("rest:") or not slashes or "@" in rest.partition("/")[0] or not user.is_file():
        return repository
    word = f":{quote(_read(password), safe='')}" if password.is_file() else ""
    return f"{scheme}://{quote(_read(user), safe='')}{word}@{rest}"


def _ssh_command(repository: str, secret: Path, log: str) -> str:
    found = _SFTP.fullmatch(repository)
    if found is None:
        raise AccessError(f"{repository!r} is no place by SFTP: sftp:USER@HOST:/PATH or sftp://USER@HOST:PORT//PATH")
    for key, what in ((_SSH_KEY, "the private key"), (_KNOWN_HOSTS, "what `ssh-keyscan HOST` prints, compared")):
        if not (secret / key).is_file():
            raise AccessError(f"the repository's Secret has no key {key}: {what}")
    # An unknown server is refused: it could be anybody's.
    words = f"{_SSH} -i {secret / _SSH_KEY} -o UserKnownHostsFile={secret / _KNOWN_HOSTS}"
    port = f" -p {found['port']}" if found["port"] else ""
    said = f" -E {log}" if log else ""
    return f"{words}{port}{said} {found['target']} -s sftp"


def _read(path: Path) -> str:
    return path.read_text().strip()
