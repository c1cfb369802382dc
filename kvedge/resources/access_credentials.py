"""SSH keys that cloud-init brings into a guest: which Secrets of a VMI's `accessCredentials` hold them.

Read by admission, by the controller that mounts the Secrets into the launcher Pod, and by the launcher that reads them
there. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.resources.types.vmi import VirtualMachineInstance

# The ways of `sshPublicKey.propagationMethod` that need nothing of the guest but cloud-init.
NO_CLOUD: Final = "noCloud"
CONFIG_DRIVE: Final = "configDrive"


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


def part_of(document: JsonObject, *names: str) -> JsonObject:
    """The object below these names; an empty one where there is none."""
    found: JsonValue = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def credential_volume(secret: str) -> str:
    """The name of the launcher Pod's volume with this Secret, as KubeVirt has it."""
    return f"{secret}-access-cred"
