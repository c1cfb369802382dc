"""What a guest's agent is to be told of keys and passwords: from the Secrets' files, and from what the guest has.

Called by `credential_keeper`. Pure. Keys that we bring carry a mark in their comment: those of others are never
touched, and one of ours that left its Secret leaves the guest, also when that happened while the guest was off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kvedge.resources.access_credentials import AgentCredential, read_public_keys

# At the end of each key of ours in a guest.
MARK: Final = "kvedge.io/access-credential"
# Of one user's authorized_keys, and of one line: what lies beyond is not compared.
_MOST_KEYS: Final = 4096
_LONGEST_KEY: Final = 32 << 10

# The files of a Secret, by their name.
Files = Mapping[str, bytes]


class CredentialUnusable(Exception):
    """A Secret does not hold what it should; the text names it, and nothing of its content."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """By user: the password, and the lines of authorized_keys, each with the mark."""

    passwords: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class KeyChange(NamedTuple):
    """Lines that a user's authorized_keys lacks, and those that are to go."""

    add: list[str]
    remove: list[str]


def plan_credentials(credentials: Iterable[AgentCredential], read: Callable[[str], Files]) -> Wanted:
    """What the guest is to have; `read` gives the files of a Secret. All keys of a user come together.

    Raises:
        CredentialUnusable: when a Secret is not there, or holds something else.
    """
    passwords: dict[str, str] = {}
    keys: dict[str, dict[str, None]] = {}
    for credential in credentials:
        files = read(credential.secret)
        if credential.users is None:
            passwords |= _read_passwords(credential.secret, files)
            continue
        lines = _read_keys(credential.secret, files)
        for user in credential.users:
            keys.setdefault(user, {}).update(dict.fromkeys(lines))
    return Wanted(passwords, {user: tuple(lines) for user, lines in keys.items()})


def plan_keys(present: object, wanted: Sequence[str]) -> KeyChange:
    """What to do about one user's keys; `present` is what the agent says of them, which may be anything."""
    found = present.get("keys") if isinstance(present, dict) else None
    lines = [line for line in found[:_MOST_KEYS] if isinstance(line, str)] if isinstance(found, list) else []
    known = {line.strip() for line in lines if len(line) <= _LONGEST_KEY}
    stale = [line for line in lines if line.strip().endswith(f" {MARK}") and line.strip() not in wanted]
    return KeyChange([line for line in wanted if line not in known], list(dict.fromkeys(stale)))


def _read_passwords(secret: str, files: Files) -> dict[str, str]:
    found = {}
    for user, content in sorted(files.items()):
        try:
            password = content.decode().strip()
        except UnicodeDecodeError as error:
            raise CredentialUnusable(f"Secret {secret}: the password of user {user} is no text") from error
        if password:
            found[user] = password
    return found


def _read_keys(secret: str, files: Files) -> list[str]:
    found: list[str] = []
    for name, content in sorted(files.items()):
        lines = read_public_keys(content.decode(errors="replace"))
        if lines is None:
            # Whoever may make VMs, but read no Secrets, would read any other Secret of the namespace in the guest.
            raise CredentialUnusable(f"Secret {secret}: {name} holds something else than SSH public keys")
        found += [f"{line} {MARK}" for line in lines if len(line) + len(MARK) < _LONGEST_KEY]
    return found
