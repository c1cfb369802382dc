"""Rules for access credentials, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.access_credentials import AGENT, CONFIG_DRIVE, NO_CLOUD, credential_volume, part_of
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from kvedge.resources.values.name_grammar import is_label

_MOST_CREDENTIALS: Final = 256
# A volume's name is a label, of 63 characters at most.
_LONGEST_NAME: Final = 63 - len(credential_volume(""))
# The ways of each kind into the guest.
_WAYS: Final = {"sshPublicKey": (NO_CLOUD, CONFIG_DRIVE, AGENT), "userPassword": (AGENT,)}
_MOST_USERS: Final = 64
# Of a user's name, in characters; no guest has longer ones.
_LONGEST_USER: Final = 256


def credentials_have_a_source_and_a_way(subject: Subject) -> Iterator[Cause]:
    """Each is of one kind, comes from one Secret, and goes one way into the guest."""
    credentials, at = subject.spec.access_credentials, subject.at.at("accessCredentials")
    if len(credentials) > _MOST_CREDENTIALS:
        yield Cause(at, f"{at} list exceeds the {_MOST_CREDENTIALS} element limit in length")
        return
    for index, credential in enumerate(credentials):
        here = at.item(index)
        kinds = [kind for kind in _WAYS if credential.get(kind) is not None]
        if len(kinds) != 1:
            yield Cause(here, f"{here} must have exactly one access credential type set")
        for kind in kinds:
            yield from _complete(part_of(credential, kind), here, here.at(kind), _WAYS[kind])
        yield from _users_are_named(part_of(credential, "sshPublicKey", "propagationMethod"), here)
        yield from _volume_is_there(subject.spec, part_of(credential, "sshPublicKey", "propagationMethod"), here)


def _complete(credential: JsonObject, entry: Field, at: Field, known: Sequence[str]) -> Iterator[Cause]:
    name = part_of(credential, "source", "secret").get("secretName")
    if not isinstance(name, str) or not name:
        yield Cause(at.at("source"), f"{entry} must have exactly one source set")
    elif not is_label(credential_volume(name)):
        text = f"{name[:80]!r} names a volume of the launcher Pod: at most {_LONGEST_NAME} letters, digits and -"
        yield Cause(at.at("source", "secret", "secretName"), text)
    ways = part_of(credential, "propagationMethod")
    if sum(ways.get(way) is not None for way in known) != 1:
        yield Cause(at.at("propagationMethod"), f"{entry} must have exactly one propagationMethod set")


def _users_are_named(ways: JsonObject, entry: Field) -> Iterator[Cause]:
    """An agent is told whose keys they are."""
    if ways.get(AGENT) is None:
        return
    at = entry.at("sshPublicKey", "propagationMethod", AGENT, "users")
    users = part_of(ways, AGENT).get("users")
    if not isinstance(users, list) or not users:
        yield Cause(at, f"{entry} requires at least one user to be present in the users list")
    elif len(users) > _MOST_USERS:
        yield Cause(at, f"{at} list exceeds the {_MOST_USERS} element limit in length")
    elif not all(isinstance(user, str) and 0 < len(user) <= _LONGEST_USER and user.isprintable() for user in users):
        yield Cause(at, f"{at} must be names of users in the guest, of 1 to {_LONGEST_USER} printable characters")


def _volume_is_there(spec: VirtualMachineInstanceSpec, ways: JsonObject, entry: Field) -> Iterator[Cause]:
    """Keys go into the guest with the volume of their own kind, or not at all."""
    present = {
        NO_CLOUD: any(volume.cloud_init_no_cloud is not None for volume in spec.volumes),
        CONFIG_DRIVE: any(volume.cloud_init_config_drive is not None for volume in spec.volumes),
    }
    for way, is_there in present.items():
        if ways.get(way) is not None and not is_there:
            text = f"{entry} requires a {way} volume to exist when the {way} propagationMethod is in use."
            yield Cause(entry.at("sshPublicKey", "propagationMethod"), text)


RULES: Final[tuple[Rule, ...]] = (credentials_have_a_source_and_a_way,)
