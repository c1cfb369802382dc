"""What becomes of a VM's Secrets when somebody may log in, or no longer: which Secret it is, and its new content.

Called by `vm_credentials`. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.client.errors import RefusedError, UsageError
from kvedge.resources.access_credentials import AGENT, agent_credentials, credential_volume, read_public_keys
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import owner_reference
from kvedge.resources.types.core import Secret
from kvedge.resources.types.vm import VirtualMachine

# The kind and the base64 of an SSH public key: neither its options nor its comment make it another one.
_KEY: Final = re.compile(r"\S+[ \t]+AAAA[0-9A-Za-z+/]+={0,2}")
# A Secret's name stands in that of a Pod's volume; room for what makes it unique must be left.
_LONGEST_STEM: Final = 63 - len(credential_volume("-ssh-key-12345"))
# Keys of a Secret's data: file names.
_FILE_NAME: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def read_keys(text: str) -> list[str]:
    """The keys that somebody gives.

    Raises:
        UsageError: when there is none, or something else, such as a private key.
    """
    keys = read_public_keys(text)
    if not keys:
        raise UsageError("the key is no SSH public key: give the content of a file such as ~/.ssh/id_ed25519.pub")
    return keys


def credentials_of(vm: VirtualMachine) -> list[JsonObject]:
    """What the VM's guests get."""
    return vm.spec.template.spec.access_credentials if vm.spec.template is not None else []


def secrets_of_user(vm: VirtualMachine, user: str) -> list[str]:
    """The Secrets with this user's SSH keys, as far as the guest's agent brings them in."""
    found = agent_credentials(credentials_of(vm))
    return list(dict.fromkeys(entry.secret for entry in found if entry.users is not None and user in entry.users))


def password_secrets(vm: VirtualMachine) -> list[str]:
    """The Secrets with passwords."""
    found = agent_credentials(credentials_of(vm))
    return list(dict.fromkeys(entry.secret for entry in found if entry.users is None))


def choose_secret(wanted: str, secrets: Sequence[str]) -> str:
    """The one to write to; `secrets` has one at least.

    Raises:
        RefusedError: when it is not clear which.
    """
    if wanted and wanted not in secrets:
        raise RefusedError(f"secret {wanted} was not assigned: the VM has {', '.join(secrets)}")
    if not wanted and len(secrets) > 1:
        raise RefusedError(
            "multiple secrets specified, use option --secret to specify which secret to modify: " + ", ".join(secrets)
        )
    return wanted or secrets[0]


def check_owned(secret: Secret, vm: VirtualMachine) -> None:
    """Refuse to change a Secret that others may use too.

    Raises:
        RefusedError: when it is not this VM's alone.
    """
    owner = (vm.KIND.kind, vm.metadata.name, vm.metadata.uid)
    if owner not in ((each.kind, each.name, each.uid) for each in secret.metadata.owner_references):
        name = secret.metadata.name
        raise RefusedError(
            f"secret {name} does not have an owner reference pointing to VM {vm.metadata.name}: "
            "others may use it too; --force changes it all the same"
        )


def missing_keys(data: Mapping[str, str], keys: Sequence[str]) -> list[str]:
    """Those of the keys that a Secret does not have yet."""
    present = {_identify(line) for content in data.values() for line in _lines(content)}
    return [key for key in keys if _identify(key) not in present]


def without_keys(data: Mapping[str, str], keys: Sequence[str]) -> dict[str, str | None]:
    """The entries of a Secret's data that change when these keys go; None for one of which nothing is left."""
    gone = {_identify(key) for key in keys}
    changed: dict[str, str | None] = {}
    for name, content in data.items():
        lines = _lines(content)
        kept = [line for line in lines if _identify(line) not in gone]
        if len(kept) < len(lines):
            changed[name] = encode_text("\n".join(kept) + "\n") if any(map(str.strip, kept)) else None
    return changed


def new_secret(vm: VirtualMachine, letters: str, keys: Sequence[str]) -> Secret:
    """A Secret of the VM's own, which goes with it."""
    secret = Secret(data={f"ssh-key-{letters}": encode_text("\n".join(keys) + "\n")})
    stem = vm.metadata.name[:_LONGEST_STEM].rstrip("-.")
    secret.metadata.name, secret.metadata.namespace = f"{stem}-ssh-key-{letters}", vm.metadata.namespace
    secret.metadata.owner_references = [owner_reference(vm)]
    # As virtctl has it; a user may not have the right to hold up the VM's deletion.
    secret.metadata.owner_references[0].block_owner_deletion = None
    return secret


def key_credential(secret: str, user: str) -> JsonObject:
    """The entry of `accessCredentials` by which the agent brings a Secret's keys to a user."""
    way = {AGENT: {"users": [user]}}
    return {"sshPublicKey": {"source": {"secret": {"secretName": secret}}, "propagationMethod": way}}


def check_password_user(user: str) -> None:
    """Refuse a user whose name cannot stand in a Secret.

    Raises:
        UsageError: for such a one.
    """
    if not _FILE_NAME.fullmatch(user):
        raise UsageError(f"user {user!r}: a Secret has passwords under names of letters, digits, -, _ and . alone")


def encode_text(text: str) -> str:
    """As a Secret's data has it."""
    return base64.b64encode(text.encode()).decode()


def _lines(content: str) -> list[str]:
    try:
        return base64.b64decode(content).decode(errors="replace").splitlines()
    except binascii.Error:
        return []


def _identify(line: str) -> str:
    found = _KEY.search(line)
    return " ".join(found.group().split()) if found and not line.lstrip().startswith("#") else line
