"""SSH keys and passwords that come into a guest: which Secrets of a VMI's `accessCredentials` hold them.

Read by admission, by the controller that mounts the Secrets into the launcher Pod, and by the launcher that reads them
there. Pure; it imports no types of ours, which a running launcher has no memory for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kvedge.resources.codec import JsonObject, JsonValue
    from kvedge.resources.types.vmi import VirtualMachineInstance

# The ways of `sshPublicKey.propagationMethod` that need nothing of the guest but cloud-init.
NO_CLOUD: Final = "noCloud"
CONFIG_DRIVE: Final = "configDrive"
# The way of keys and of passwords that needs the guest's agent.
AGENT: Final = "qemuGuestAgent"
# A line of authorized_keys (sshd(8)): options may stand before the kind of the key, which its base64 follows.
_PUBLIC_KEY: Final = re.compile(
    r"(?:^|.*[ \t])(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp[0-9]+|sk-[a-z0-9-]+@openssh\.com)"
    r"(?:-cert-v01@openssh\.com)?[ \t]+AAAA[0-9A-Za-z+/]+={0,2}(?:[ \t].*)?"
)


class AgentCredential(NamedTuple):
    """What the guest's agent brings into the guest: the keys in a Secret, for these users; or, with None for them,
    passwords, each under the name of its user.
    """

    secret: str
    users: tuple[str, ...] | None


def key_secrets(vmi: VirtualMachineInstance, *methods: str) -> list[str]:
    """The Secrets whose keys go into the guest by one of these ways, each once, in their order."""
    found: dict[str, None] = {}
    for credential in vmi.spec.access_credentials:
        public_key = part_of(credential, "sshPublicKey")
        secret = part_of(public_key, "source", "secret").get("secretName")
        way = part_of(public_key, "propagationMethod")
        if isinstance(secret, str) and secret and any(way.get(method) is not None for method in methods):
            found[secret] = None
    return list(found)


def agent_credentials(credentials: Sequence[JsonObject]) -> list[AgentCredential]:
    """Those of a VMI's `accessCredentials` that its guest's agent is to bring into the guest, in their order."""
    found = []
    for credential in credentials:
        for kind in ("sshPublicKey", "userPassword"):
            part = part_of(credential, kind)
            secret = part_of(part, "source", "secret").get("secretName")
            way = part_of(part, "propagationMethod").get(AGENT)
            if not isinstance(secret, str) or not secret or not isinstance(way, dict):
                continue
            users = way.get("users")
            names = tuple(str(user) for user in users) if isinstance(users, list) else ()
            found.append(AgentCredential(secret, names if kind == "sshPublicKey" else None))
    return found


def credential_secrets(vmi: VirtualMachineInstance) -> list[str]:
    """The Secrets that the launcher Pod has for them, each once."""
    by_cloud_init = key_secrets(vmi, NO_CLOUD, CONFIG_DRIVE)
    by_agent = (credential.secret for credential in agent_credentials(vmi.spec.access_credentials))
    return list(dict.fromkeys([*by_cloud_init, *by_agent]))


def part_of(document: JsonObject, *names: str) -> JsonObject:
    """The object below these names; an empty one where there is none."""
    found: JsonValue = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def credential_volume(secret: str) -> str:
    """The name of the launcher Pod's volume with this Secret, as KubeVirt has it."""
    return f"{secret}-access-cred"


def read_public_keys(text: str) -> list[str] | None:
    """The lines of an authorized_keys file, without blank ones and comments; None when one is no SSH public key."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    return lines if all(_PUBLIC_KEY.fullmatch(line) for line in lines) else None
